#include "report/judge/out_of_memory.h"

#include "report/base/printable.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"

namespace culprit::report {

std::string line_place(const HolderLine& line) {
  if (line.what == LineOf::kTensors) {
    std::string text = line.file.empty() ? "" : std::string(base_name(line.file)) + ":" + std::to_string(line.line);
    if (!line.function.empty()) text += "  " + line.function;
    if (!line.held_by.empty()) text += (text.empty() ? "held by " : ", held by ") + line.held_by;
    return text.empty() ? "(line not recorded)" : printable(text);
  }
  return line.frame == nullptr ? "(stack not recorded)" : frame_text(*line.frame);
}

}  // namespace culprit::report
