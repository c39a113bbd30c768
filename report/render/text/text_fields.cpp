#include "report/render/text/text_fields.h"

#include <algorithm>

#include "report/base/text_width.h"
#include "report/base/words.h"
#include "report/model/folded_stack.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLabelWidth = 9;
constexpr std::size_t kWidestPlace = 32;
constexpr std::size_t kIndent = 3 + kLabelWidth + 2;
constexpr std::size_t kLeastFunction = 20;  // columns that a function gets on the narrowest terminal

}  // namespace

void TextFields::field(const std::string& label, const std::string& text) {
  out_ << "   " << padded_to_width(label, kLabelWidth) << "  " << text << "\n";
}

const TextFields::FrameText& TextFields::text_of(const Frame* frame) {
  const auto [at, added] = frames_.try_emplace(frame);
  if (added) {
    at->second.place = frame_place(*frame);
    at->second.columns = columns_of(at->second.place);
    at->second.function = frame_function(*frame);
    at->second.inlined = frame->inlined;
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
    lines += "  ";
    if (options_.columns == 0) {
      lines += text->function;
    } else {
      const std::size_t used = kIndent + std::max(width, text->columns) + 2;
      const std::size_t left = options_.columns > used ? options_.columns - used : 0;
      lines += shortened(text->function, std::max(left, kLeastFunction));
    }
    if (text->inlined) lines += palette_.faint(" (inlined)");
    lines += '\n';
  }
  out_ << lines;
  if (frames.empty() && needed) field(label, "(stack not recorded)");
}

void TextFields::mixed_stack(const std::string& label, const std::vector<const Frame*>& frames, bool needed) {
  const FoldedStack shown = folded(frames, options_.full_stacks);
  const bool has_python = !shown.python.empty();
  if (has_python) stack(label, shown.python);
  stack(has_python ? "native" : label, shown.native, needed && !has_python);
  if (shown.folded == 0) return;
  const bool alone = has_python && shown.native.empty();
  field(alone ? "native" : "", (alone ? "" : "and ") + folded_text(shown));
}

}  // namespace culprit::report
