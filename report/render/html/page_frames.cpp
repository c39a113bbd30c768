#include "report/render/html/page_frames.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/base/printable.h"
#include "report/model/frame_rules.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"

namespace culprit::report {

std::string page_text(const Json& value) {
  return with_printable_strings(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::size_t page_bytes(const std::string& text) {
  return text.size() + 5 * static_cast<std::size_t>(std::count(text.begin(), text.end(), '<'));
}

std::size_t PageFrames::number_of(const std::string& text) {
  const auto [at, added] = string_numbers_.try_emplace(text, strings_.size());
  if (added) {
    strings_.push_back(text);
    bytes_ += page_bytes(page_text(text)) + 1;
  }
  return at->second;
}

std::size_t PageFrames::number_of(const Frame* frame) {
  const auto [at, added] = frame_numbers_.try_emplace(frame, frames_.size());
  if (added) {
    const std::uint64_t flags = (frame->inlined ? 1U : 0U) + (frame->python ? 2U : 0U) + (frame->approximate ? 4U : 0U);
    const char* const plumbing = plumbing_name(*frame);
    frames_.push_back({number_of(frame_function(*frame)), number_of(frame->file), frame->line,
                       number_of(frame->module != nullptr ? frame->module->path : ""), frame->offset, flags,
                       number_of(plumbing == nullptr ? "" : plumbing)});
    bytes_ += page_text(frames_.back()).size() + 1;
  }
  return at->second;
}

Json PageFrames::numbers_of(const std::vector<const Frame*>& frames) {
  Json list = Json::array();
  for (const Frame* frame : frames) list.push_back(number_of(frame));
  return list;
}

Json PageFrames::numbers_of(const ResolvedStack* stack) {
  return stack == nullptr ? Json::array() : numbers_of(stack->frames);
}

void PageFrames::write(std::ostream& out) const {
  out << "\"frames\": " << page_text(frames_) << ",\n\"strings\": " << page_text(strings_) << "\n";
}

}  // namespace culprit::report
