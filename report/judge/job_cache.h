// The stacks that the dumps of a job have in common, and whose memory they take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "report/judge/stack_owners.h"
#include "report/model/stack_cache.h"

namespace culprit::report {

// Of one thread, which makes one report after the other, all with the same options.
struct JobCache {
  std::shared_ptr<StackCache> stacks = std::make_shared<StackCache>();
  StackOwners owners;
  std::size_t most = 0;  // of StackCache::bytes(); 0: no dump was read yet

  // To be called between two reports. Ranks that have little in common would fill the memory: then the cache begins
  // anew, but it may always have half as much again as the dump that came first.
  void limit() {
    constexpr std::size_t kMost = 16 << 20;
    if (most == 0) most = std::max(kMost, stacks->bytes() + stacks->bytes() / 2);
    if (stacks->bytes() > most) *this = JobCache();
  }
};

}  // namespace culprit::report
