// JSON text with an indentation, and frames as such text.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "report/render/json/json.h"

namespace culprit::report {

struct Frame;

// The text of a value whose first line the caller has indented. Invalid UTF-8 is replaced.
std::string indented_text(const Json& value, std::size_t indent);

// The frames of a report as text. Few frames occur in many stacks, so each is converted once. Thread-safe.
class FrameTexts {
 public:
  using ToJson = Json (*)(const Frame&);

  // `indent`: the indentation of a frame's opening brace.
  FrameTexts(ToJson to_json, std::size_t indent) : to_json_(to_json), indent_(indent) {}
  std::size_t indent() const { return indent_; }

  // The result lives as long as this object.
  const std::string& of(const Frame* frame);

  // Calls visit(frame) for each frame that of() was called for, in any order. No other thread may call of() meanwhile.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Part& part : parts_) {
      for (const auto& [frame, text] : part.texts) visit(frame);
    }
  }

 private:
  struct Part {
    std::mutex mutex;
    std::unordered_map<const Frame*, std::string> texts;
  };

  ToJson to_json_;
  std::size_t indent_;
  std::array<Part, 64> parts_;
};

}  // namespace culprit::report
