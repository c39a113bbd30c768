#include "report/text_fields.h"

#include <algorithm>

namespace culprit {
namespace {

constexpr std::size_t kWidestPlace = 32;

}  // namespace

void TextFields::field(const std::string& label, const std::string& text) {
  out_ << "   " << padded(label, 9) << "  " << text << "\n";
}

void TextFields::stack(const std::string& label, const std::vector<const Frame*>& frames, bool needed) {
  std::size_t width = 0;
  for (const Frame* frame : frames) width = std::max(width, frame_place(*frame).size());
  width = std::min(width, kWidestPlace);
  bool first = true;
  for (const Frame* frame : frames) {
    std::string text = padded(frame_place(*frame), width) + "  " + frame_function(*frame);
    if (frame->inlined) text += palette_.faint(" (inlined)");
    field(first ? label : "", text);
    first = false;
  }
  if (frames.empty() && needed) field(label, "(stack not recorded)");
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string plural(std::uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace culprit
