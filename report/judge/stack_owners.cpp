#include "report/judge/stack_owners.h"

#include "report/model/frames.h"
#include "report/model/stacks.h"

namespace culprit::report {

void StackOwners::examine(const StackResolver& stacks) { pools_.examine(stacks.frames()); }

StackOwners::Known* StackOwners::known(const ResolvedStack& stack) {
  if (stack.number == 0) {
    other_ = Known();
    return &other_;
  }
  if (stack.number >= known_.size()) known_.resize(stack.number + 1);
  return &known_[stack.number];
}

std::string StackOwners::library(const ResolvedStack& stack) {
  Known* const one = known(stack);
  if (!one->library_known) one->library = libraries_.owning_library(stack);
  one->library_known = true;
  return one->library;
}

const Pool* StackOwners::pool(const ResolvedStack& stack) {
  Known* const one = known(stack);
  if (!one->pool_known) one->pool = pools_.owning_pool(stack);
  one->pool_known = true;
  return one->pool;
}

}  // namespace culprit::report
