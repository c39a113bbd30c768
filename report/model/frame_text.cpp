#include "report/model/frame_text.h"

#include "report/base/words.h"
#include "report/model/frames.h"

namespace culprit::report {

std::string frame_place(const Frame& frame) {
  if (!frame.file.empty()) {
    std::string place = printable(base_name(frame.file));
    return frame.line != 0 ? place + ":" + std::to_string(frame.line) : place;
  }
  return frame.module != nullptr ? printable(frame.module->name) : "";
}

std::string frame_function(const Frame& frame) {
  const std::string name = printable(frame.function);
  if (!frame.file.empty()) return name.empty() ? "??" : name;
  if (!name.empty() && !frame.approximate) return name + (frame.inlined ? "" : "+" + hex_text(frame.symbol_offset));
  const std::string place = frame.module != nullptr ? printable(frame.module->name) + "+" : "";
  const std::string nearest = name.empty() ? "" : " (after " + name + "+" + hex_text(frame.symbol_offset) + ")";
  return place + hex_text(frame.offset) + nearest;
}

std::string frame_text(const Frame& frame) {
  return frame.file.empty() ? frame_function(frame) : frame_place(frame) + "  " + frame_function(frame);
}

}  // namespace culprit::report
