#include "interpose/process/stack_holders.h"

#include <time.h>

#include "interpose/owners/thread_paths.h"
#include "interpose/python_stacks/python_frames.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/system/clock.h"
#include "interpose/system/os.h"

namespace culprit {

using format::Ref;

void StackHolders::enter(StackHolder* holder) {
  SpinGuard guard(lock_);
  holders_.add(holder);
}

void StackHolders::leave(StackHolder* holder) {
  SpinGuard guard(lock_);
  Holders::remove(holder);
}

void StackHolders::begin_grace_period() {
  ++grace_period_;
  // Used without membarrier(2): a store is visible to all threads long before this time is over.
  constexpr std::uint64_t kLongEnough = 10000000;
  not_before_ns_ = meet_other_threads() ? 0 : clock_ns(CLOCK_MONOTONIC) + kLongEnough;
}

bool StackHolders::grace_period_is_over(const StackHolder* self) {
  if (not_before_ns_ != 0 && clock_ns(CLOCK_MONOTONIC) < not_before_ns_) return false;
  SpinGuard guard(lock_);
  bool all = true;
  for (StackHolder& holder : holders_) {
    if (holder.seen == grace_period_) continue;
    if (&holder == self || !__atomic_load_n(holder.in_section, __ATOMIC_ACQUIRE)) {
      holder.seen = grace_period_;
    } else {
      all = false;
    }
  }
  return all && all_watched();
}

void StackHolders::mark(StackTable& stacks) {
  SpinGuard guard(lock_);
  for (const StackHolder& holder : holders_) {
    auto mark = [&](Ref stack) { stacks.mark(stack); };
    holder.memo->for_each_stack(mark);
    if (holder.python != nullptr) {
      for (const PythonMemo::Entry& entry : holder.python->entries) {
        stacks.mark(__atomic_load_n(&entry.native, __ATOMIC_ACQUIRE));
        stacks.mark(__atomic_load_n(&entry.stack, __ATOMIC_ACQUIRE));
      }
    }
    if (holder.paths != nullptr) holder.paths->for_each_flight_stack(mark);
    stacks.mark(__atomic_load_n(&holder.walked, __ATOMIC_ACQUIRE));
    for (const Ref& kept : holder.kept) stacks.mark(__atomic_load_n(&kept, __ATOMIC_ACQUIRE));
  }
}

}  // namespace culprit
