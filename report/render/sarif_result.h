// The results of a SARIF file as text: a leak or a bad free each.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "report/render/json/frame_texts.h"

namespace culprit::report {

struct ErrorGroup;
struct Frame;
struct Group;
struct Report;

// A frame as a location.
Json location_json(const Frame& frame);

// The rules that results name by their index.
Json sarif_rules();

// Not thread-safe. The reports must outlive this object.
class SarifResults {
 public:
  // The indentation of a result's opening brace.
  static constexpr std::size_t kIndent = 8;
  // Code scanning shows 100 locations of a result and rejects a file with more than 1,000; it sets no limit for stacks.
  static constexpr std::size_t kMostLocations = 100;
  static constexpr std::size_t kMostFrames = 1000;
  static constexpr std::size_t kMostFrameBytes = 256 << 10;

  SarifResults();

  // Append an object. `invocation`: the process's place among several invocations of the run; empty: a single one.
  void append_leak(const Report& report, const Group& group, const std::string& name,
                   std::optional<std::size_t> invocation, std::string* out);
  void append_error(const Report& report, const ErrorGroup& error, std::optional<std::size_t> invocation,
                    std::string* out);

 private:
  FrameTexts frames_;
};

}  // namespace culprit::report
