// Stacks as the pages have them (report/render/html/frames.js): lists of numbers of frames, which name strings by
// number. Five thousand leaks share most of theirs.
#pragma once

#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/model/stacks.h"
#include "report/render/json/report_json.h"

namespace culprit {

// A browser takes long over more entries of one list than this; the smallest stay out, and the page says so.
constexpr std::size_t kMostPageEntries = 20000;

// JSON text for a page. Text that is no valid UTF-8 is made so.
std::string page_text(const Json& value);

// Not thread-safe. Frames must live as long as this.
class PageFrames {
 public:
  std::size_t number_of(const std::string& text);
  Json numbers_of(const std::vector<const Frame*>& frames);
  // An empty list for nullptr.
  Json numbers_of(const ResolvedStack* stack);

  // Writes what the numbers stand for, as the last members of an object.
  void write(std::ostream& out) const;

 private:
  std::size_t number_of(const Frame* frame);

  Json frames_ = Json::array();
  Json strings_ = Json::array();
  std::unordered_map<const Frame*, std::size_t> frame_numbers_;
  std::unordered_map<std::string, std::size_t> string_numbers_;
};

}  // namespace culprit
