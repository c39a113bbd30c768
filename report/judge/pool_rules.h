// The caching allocators of frameworks: which memory is a segment of one of them.
#pragma once

#include <string>
#include <unordered_map>

#include "report/model/stacks.h"

namespace culprit {

struct Pool {
  const char* name;  // "PyTorch caching allocator"
  const char* hint;  // what a user can do about it; nullptr: nothing
};

// The pool of that name; nullptr when there is none.
const Pool* pool_by_name(const std::string& name);

// Knows the pools by the functions that take segments from CUDA; what the same libraries allocate otherwise is nobody's
// cache. Looks at every frame once, so that a hundred thousand stacks cost little. Const, and usable from any thread.
class PoolRules {
 public:
  // For stacks that this resolver has resolved.
  explicit PoolRules(const StackResolver& stacks);

  // The pool that made an allocation with this stack for itself; nullptr when none did.
  const Pool* owning_pool(const ResolvedStack& stack) const;

 private:
  // What the rules say of a frame: the first that its function fits, and the first for a nameless frame of its module.
  // -1: none.
  struct Known {
    int named = -1;
    int nameless = -1;
  };

  std::unordered_map<const Frame*, Known> frames_;  // of those only that any rule concerns
};

// Who asked the pool: the innermost Python frame outside of it (of no installed package, if there is one), else the
// innermost frame that has a source line, else the innermost one; nullptr when the stack has none.
const Frame* user_of_pool(const ResolvedStack& stack, const Pool& pool);

}  // namespace culprit
