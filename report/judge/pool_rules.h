// The caching allocators of frameworks: recognises memory that is a segment of one of them.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/model/pool.h"

namespace culprit::report {

struct Frame;
struct Module;
struct ResolvedStack;

// The pool with that name; nullptr when there is none.
const Pool* pool_by_name(const std::string& name);

// Recognises pools by the functions that take segments from CUDA; other allocations of the same libraries are not
// cached memory. Each frame is examined once, so that a hundred thousand stacks cost little. The const functions are
// usable from any thread.
class PoolRules {
 public:
  // For stacks of these frames. Called again for a longer list, only the frames at its end are examined.
  void examine(const std::deque<Frame>& frames);

  // The pool that made an allocation with this stack for itself; nullptr for none.
  const Pool* owning_pool(const ResolvedStack& stack) const;

 private:
  // The rules that match a frame: the first that its function matches, and the first for a nameless frame of its
  // module. -1: none.
  struct Known {
    int named = -1;
    int nameless = -1;
  };

  std::size_t examined_ = 0;
  std::unordered_map<const Module*, std::vector<std::size_t>> rules_of_module_;
  std::unordered_map<const Frame*, Known> frames_;  // only frames that a rule concerns
};

// The frame that requested memory from the pool: the innermost Python frame outside of the pool (of no installed
// package, if there is one), else the innermost frame with a source line, else the innermost one; nullptr when the
// stack has none.
const Frame* user_of_pool(const ResolvedStack& stack, const Pool& pool);

}  // namespace culprit::report
