// Stacks in the data of HTML pages (report/render/html/frames.js): lists of frame numbers; frames refer to strings by
// number. Five thousand leaks share most of their frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/render/json/json.h"

namespace culprit::report {

struct Frame;
struct ResolvedStack;

// More entries per list are slow in a browser; the smallest are left out, and the page says so.
constexpr std::size_t kMostPageEntries = 20000;

// A page of 25 MB is the limit of what browsers open quickly; the rest is style and scripts.
constexpr std::size_t kMostPageDataBytes = 23000000;

// JSON text for a page. Invalid UTF-8 is replaced.
std::string page_text(const Json& value);

// The size of JSON text in a page: html_page.h writes "<" as an escape sequence.
std::size_t page_bytes(const std::string& text);

// Not thread-safe. The frames must outlive this object.
class PageFrames {
 public:
  std::size_t number_of(const std::string& text);
  Json numbers_of(const std::vector<const Frame*>& frames);
  // An empty list for nullptr.
  Json numbers_of(const ResolvedStack* stack);

  // Writes the frames and strings behind the numbers, as the last members of an object.
  void write(std::ostream& out) const;

  // The bytes that write() takes in a page, at most.
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t number_of(const Frame* frame);

  // Function, file, line, module, offset, flags, plumbing_name(): names are numbers of strings.
  using Row = std::array<std::uint64_t, 7>;

  std::vector<Row> frames_;
  std::size_t bytes_ = 40;  // the members' names and brackets
  std::vector<std::string> strings_;
  std::unordered_map<const Frame*, std::size_t> frame_numbers_;
  std::unordered_map<std::string, std::size_t> string_numbers_;
};

}  // namespace culprit::report
