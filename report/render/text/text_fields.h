// The lines below a group's title in the text report: a label and its value.
#pragma once

#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/render/text/palette.h"

namespace culprit::report {

struct Frame;
struct RenderOptions;

// Not thread-safe: caches the text of frames.
class TextFields {
 public:
  // Frames are cut to options.columns. The objects must outlive this one.
  TextFields(const Palette& palette, const RenderOptions& options, std::ostream& out)
      : palette_(palette), options_(options), out_(out) {}

  // "   thread     4250 "worker-3"": without a label the line continues the one above.
  void field(const std::string& label, const std::string& text);

  // One field per frame, with aligned places; for a stack that was not recorded, a line says so when `needed`.
  void stack(const std::string& label, const std::vector<const Frame*>& frames, bool needed = true);

  // stack() for a stack that may have Python frames: those first, the native ones below, and one line for those that
  // say little (model/folded_stack.h).
  void mixed_stack(const std::string& label, const std::vector<const Frame*>& frames, bool needed = true);

 private:
  struct FrameText {
    std::string place;
    std::size_t columns = 0;  // of `place`
    std::string function;
    bool inlined = false;
  };
  const FrameText& text_of(const Frame* frame);

  const Palette& palette_;
  const RenderOptions& options_;
  std::ostream& out_;
  std::unordered_map<const Frame*, FrameText> frames_;
};

}  // namespace culprit::report
