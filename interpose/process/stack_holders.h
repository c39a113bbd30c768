// The threads that may hold stacks outside the dump, and waiting until each of them was seen outside of the tracker
// once. stack_collection.h explains what for.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/linked_list.h"
#include "interpose/format/dump_format.h"
#include "interpose/stacks/stack_table.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

class StackMemo;
class ThreadPaths;
struct PythonMemo;

// The stacks that one thread holds. Written by that thread only, except for the list's fields. All zeros = nothing.
struct StackHolder {
  const bool* in_section;  // the thread's `in_tracker`
  const StackMemo* memo;
  const PythonMemo* python;
  const ThreadPaths* paths;  // its exceptions in flight; nullptr = none
  format::Ref walked;        // the last stack that was not in its memo
  format::Ref kept[4];       // stacks of throws that are being recorded, while what() runs
  std::uint32_t seen;        // the last grace period in which it was seen outside
  ListLink<StackHolder> link;
};

// All threads that may hold stacks. Thread-safe.
class StackHolders {
 public:
  void enter(StackHolder* holder);
  // The thread holds no stacks from now on. Its memory may be freed afterwards.
  void leave(StackHolder* holder);
  // A thread cannot be watched: no stack may be freed from now on.
  void enter_unwatched() { unwatched_.store(true); }
  bool all_watched() const { return !unwatched_.load(); }

  // Begins a grace period, which takes some milliseconds on a kernel without membarrier(2).
  void begin_grace_period();
  // Whether every thread was seen outside of the tracker since then. `self`: the caller's, which holds no stacks now.
  bool grace_period_is_over(const StackHolder* self);
  // Marks the stacks that all threads hold.
  void mark(StackTable& stacks);

 private:
  using Holders = LinkedList<StackHolder, &StackHolder::link>;
  SpinLock lock_;
  Holders holders_;
  std::uint32_t grace_period_;
  std::uint64_t not_before_ns_;
  std::atomic<bool> unwatched_;
};

}  // namespace culprit
