#include "report/model/folded_stack.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/frame_rules.h"
#include "report/model/frames.h"

namespace culprit::report {
namespace {

constexpr std::size_t kNamedLibraries = 4;

// "libcublas" of "libcublas.so.13", "_ctypes" of "_ctypes.cpython-312-x86_64-linux-gnu.so".
std::string library_of(const Frame& frame) {
  const char* const plumbing = plumbing_name(frame);
  if (plumbing != nullptr) return plumbing;
  if (frame.module == nullptr) return "";
  return printable(frame.module->name.substr(0, frame.module->name.find('.')));
}

}  // namespace

FoldedStack folded(const std::vector<const Frame*>& frames, bool all) {
  FoldedStack result;
  const bool has_python = std::any_of(frames.begin(), frames.end(), [](const Frame* frame) { return frame->python; });
  std::vector<const Frame*> native;
  std::vector<std::string> libraries;
  for (const Frame* frame : frames) {
    if (frame->python) {
      result.python.push_back(frame);
      continue;
    }
    native.push_back(frame);
    if (all || (plumbing_name(*frame) == nullptr && (!has_python || !frame->file.empty()))) {
      result.native.push_back(frame);
      continue;
    }
    ++result.folded;
    std::string library = library_of(*frame);
    if (!library.empty() && std::find(libraries.begin(), libraries.end(), library) == libraries.end())
      libraries.push_back(std::move(library));
  }
  // A stack of plumbing alone is shown as it is.
  if (result.python.empty() && result.native.empty()) {
    result.native = std::move(native);
    result.folded = 0;
    return result;
  }
  for (std::size_t i = 0; i < libraries.size() && i < kNamedLibraries; ++i)
    result.folded_of += (i == 0 ? "" : ", ") + libraries[i];
  if (libraries.size() > kNamedLibraries) result.folded_of += ", ...";
  return result;
}

std::string folded_text(const FoldedStack& stack) {
  if (stack.folded == 0) return "";
  return plural(stack.folded, "frame", "frames") + (stack.folded_of.empty() ? "" : " of " + stack.folded_of) +
         " (--full-stacks)";
}

}  // namespace culprit::report
