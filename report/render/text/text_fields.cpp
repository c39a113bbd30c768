#include "report/render/text/text_fields.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLabelWidth = 9;
constexpr std::size_t kWidestPlace = 32;

}  // namespace

void TextFields::field(const std::string& label, const std::string& text) {
  out_ << "   " << padded_to_width(label, kLabelWidth) << "  " << text << "\n";
}

const TextFields::FrameText& TextFields::text_of(const Frame* frame) {
  const auto [at, added] = frames_.try_emplace(frame);
  if (added) {
    at->second.place = frame_place(*frame);
    at->second.columns = columns_of(at->second.place);
    at->second.rest = "  " + frame_function(*frame);
    if (frame->inlined) at->second.rest += palette_.faint(" (inlined)");
  }
  return at->second;
}

void TextFields::stack(const std::string& label, const std::vector<const Frame*>& frames, bool needed) {
  std::vector<const FrameText*> texts;
  texts.reserve(frames.size());
  std::size_t width = 0;
  for (const Frame* frame : frames) {
    texts.push_back(&text_of(frame));
    width = std::max(width, texts.back()->columns);
  }
  width = std::min(width, kWidestPlace);
  std::string lines;
  for (const FrameText* text : texts) {
    const bool first = lines.empty();
    lines += "   ";
    lines += padded_to_width(first ? label : "", kLabelWidth);
    lines += "  ";
    lines += text->place;
    if (text->columns < width) lines.append(width - text->columns, ' ');
    lines += text->rest;
    lines += '\n';
  }
  out_ << lines;
  if (frames.empty() && needed) field(label, "(stack not recorded)");
}

void TextFields::mixed_stack(const std::string& label, const std::vector<const Frame*>& frames, bool needed) {
  std::vector<const Frame*> python;
  std::vector<const Frame*> native;
  for (const Frame* frame : frames) (frame->python ? python : native).push_back(frame);
  if (python.empty()) {
    stack(label, frames, needed);
  } else {
    stack(label, python);
    stack("native", native, false);
  }
}

}  // namespace culprit::report
