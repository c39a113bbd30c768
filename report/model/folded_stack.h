// A stack as reports show it unless all frames are asked for (--full-stacks): without the frames that say little.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace culprit::report {

struct Frame;

struct FoldedStack {
  // Python's frames first, then the native ones that are left: those with a source line if there are Python's, else all
  // but the plumbing (frame_rules.h).
  std::vector<const Frame*> python;
  std::vector<const Frame*> native;
  std::size_t folded = 0;  // native frames that are in neither
  // "libtorch, pybind11": what the folded frames are of, in the order of the stack.
  std::string folded_of;
};

// The frames are those of a ResolvedStack, innermost first. `all`: nothing is folded. Thread-safe.
FoldedStack folded(const std::vector<const Frame*>& frames, bool all);

// "22 frames of libtorch, pybind11 (--full-stacks)"; empty when nothing is folded.
std::string folded_text(const FoldedStack& stack);

}  // namespace culprit::report
