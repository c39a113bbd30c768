// Whose memory an allocation takes, by its stack: that of a library, or of a framework's caching allocator.
#pragma once

#include <string>
#include <vector>

#include "report/causes/library_rules.h"
#include "report/judge/pool_rules.h"

namespace culprit::report {

struct ResolvedStack;
class StackResolver;

// Remembers its answers for stacks of a shared StackCache, which are those of many dumps. Not thread-safe.
class StackOwners {
 public:
  // To be called for each resolver before its stacks are asked for: the first one's cache must be that of all.
  void examine(const StackResolver& stacks);

  // As owning_library() and PoolRules::owning_pool().
  std::string library(const ResolvedStack& stack);
  const Pool* pool(const ResolvedStack& stack);
  const PoolRules& pools() const { return pools_; }

 private:
  struct Known {
    bool library_known = false;
    bool pool_known = false;
    std::string library;
    const Pool* pool = nullptr;
  };
  Known* known(const ResolvedStack& stack);

  PoolRules pools_;
  LibraryRules libraries_;
  std::vector<Known> known_;  // by ResolvedStack::number
  Known other_;               // of a stack without a number
};

}  // namespace culprit::report
