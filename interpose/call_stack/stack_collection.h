// Finds unreferenced stacks and frees their room, so that a program with ever new stacks has a dump of bounded size.
//
// There are no reference counts, which would slow down the hot path. A collection marks the stacks that are needed and
// frees the others. It runs in a thread that stores a new stack, while other threads go on. If it must wait for one of
// them it returns, and the next thread that stores a new stack continues it.
//
//     begin    all marks are cleared (StackTable::begin_marking)
//     meet     until every thread was seen outside of the tracker once
//     mark     the stacks that threads hold, then those in records of allocations, then those in tables
//     meet     again
//     mark     the stacks that threads hold, and those in tables
//     sweep    stacks without a mark are freed (StackTable::sweep)
//
// Why no needed stack is freed. Let S be a stack, and a *section* an interval of a thread's time with
// `thread_state.in_tracker` set: a thread reads and stores numbers of stacks in sections only.
//
// 1. A thread gets S in one of three ways. (a) StackTable::intern() gives S a mark, and holds a lock that sweep() needs
//    too. If that was before the marks were cleared, the first grace period guarantees that the section is over before
//    the first marking starts. (b) From its own memo of stacks, or its memo of stacks with Python frames. (c) From a
//    record or table in the dump.
// 2. The marking follows the order in which numbers are copied: memo, then allocations, then tables. Marking (x86-64:
//    stores become visible in order, and loads are not reordered with earlier loads) sees either S at a place, or that
//    the place was overwritten, and then also the thread's earlier stores: S at its next place, which is marked later.
//    So an S from a memo (b) is marked there, or in the record to which the thread copied it before it overwrote the
//    memo's entry.
// 3. The remaining case is (c): S is read from an allocation's record, another thread overwrites the record before it
//    is marked, and the table to which S is copied was marked before S came there. Such a thread is in a section all
//    the time, and done with it after the second grace period. Tables do not lose entries (breakdowns do, and are
//    therefore paused meanwhile). So the second marking of the tables finds S. This cannot happen again during the
//    second marking: an S that was in an allocation's record when the first marking began was marked there, and a later
//    one came by (a) or (b).
// 4. A thread holds S across the end of a section in two cases. During a driver call that ends something (Ending,
//    Teardown), S is the last stack that this thread looked up, so it is in its memo, or in `walked` if it must not be
//    remembered. While a throw is recorded and the program's what() runs, S is in `kept`.
//
// A grace period: the barrier of all threads (meet_other_threads) comes after the collector's stores and before its
// reads of each thread's `in_tracker`. A thread that is not seen in a section then either ended it before, or begins
// the next one after the barrier, and sees those stores. A thread that stays in a section for ever (it was stopped
// there, or left it by a jump) prevents all freeing; the room's limit still holds.
//
// Roots, and the number of stacks that they keep: each thread's memos (about 700 of 40 frames, and 1024 with Python
// frames), its counters (168), its throws in flight (8); the last 128 to 256 allocations that each thread ended, and
// other ended records that were not reused yet, as long as there is room; the tables, all of fixed size (README.md).
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/skip_lock.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/process/stack_holders.h"
#include "interpose/stacks/stack_table.h"

namespace culprit {

class CancelTable;
class PythonFrames;

class StackCollection {
 public:
  struct Parts {
    StackTable& stacks;
    StackHolders& holders;
    ModuleTable& modules;
    PythonFrames* python;  // may be nullptr
    SkipLock* breakdowns;  // may be nullptr
    CancelTable* cancels;  // may be nullptr
    DumpWriter& dump;
  };

  // Whether step() has something to do: cheap.
  bool is_due(const Parts& parts) const {
    return wants(parts) || phase_.load(std::memory_order_relaxed) != Phase::kIdle;
  }

  // Begins or continues a collection, as far as possible. The calling thread holds only the stacks in its StackHolder.
  // Thread-safe; only one of several concurrent callers does the work. If the collection must wait for other threads
  // and new stacks have taken a quarter more room than they should, the caller sleeps for 200 us, once: so a thread
  // that was preempted in a section can run, and few new stacks are added meanwhile.
  void step(const Parts& parts, const StackHolder* self);

 private:
  enum class Phase : std::uint32_t { kIdle = 0, kFirstGracePeriod, kSecondGracePeriod };
  void advance(const Parts& parts, const StackHolder* self);
  static bool wants(const Parts& parts);
  static void mark_allocations(const Parts& parts, bool forget_ended);
  static void mark_tables(const Parts& parts);
  void finish(const Parts& parts);

  SkipLock busy_;
  std::atomic<Phase> phase_;
  bool forget_ended_;  // in this collection
  bool forgot_;        // in any
};

}  // namespace culprit
