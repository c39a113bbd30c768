// Finds the stacks that nothing names any more, so that a program with ever new stacks has a dump of bounded size.
//
// There are no counts of references: the way that every call takes stays as it is. A collection marks what is needed
// and frees the rest. It runs in a thread that wants a new stack, while other threads go on; where it has to wait for
// one of them it returns, and the next thread that wants a new stack goes on with it.
//
//     begin    all marks are taken away (StackTable::begin_marking)
//     meet     until every thread was seen outside of the tracker once
//     mark     what threads hold, then the records of allocations, then the tables
//     meet     once more
//     mark     what threads hold, and the tables
//     sweep    what has no mark is free (StackTable::sweep)
//
// Why no stack that is needed is freed. Let S be a stack, and a *section* a stretch of a thread's time with
// `thread_state.in_tracker` set: a thread reads and stores numbers of stacks in sections only.
//
// 1. A thread gets S in one of three ways. (a) StackTable::intern() gives S a mark, and holds a lock that sweep() needs
//    too. Where that was before the marks were taken away, the section is over before the first marking starts: the
//    first meeting. (b) From its own memo of stacks, of what it or a Python frame's key found there. (c) From a record
//    or table in the dump.
// 2. The marking follows the way that numbers take: memo, then allocations, then tables. Marking (x86-64: stores become
//    visible in their order, and are not passed by later loads of what was read before) sees either S in the place
//    that is looked at, or that it was overwritten, and then what the thread stored before that: S at its next place,
//    which is looked at later. So an S from a memo (b) is marked there, or in the record to which the thread copied it
//    before it overwrote the memo's entry.
// 3. What is left is (c): S is read from an allocation's record, the record is overwritten by somebody else before it
// is
//    looked at, and the table to which S goes was looked at before S came there. Such a thread is in a section all the
//    time, and done with it after the second meeting; tables do not lose what they have (pictures do, and are
//    therefore kept from changing meanwhile). So the second look at the tables finds S. Nobody can repeat this during
//    the second marking: an S that still was in an allocation's record when the first marking began was marked there,
//    and one that came there since came by (a) or (b).
// 4. A thread holds S across the end of a section in two cases. A call of the driver that ends something (Ending,
//    Teardown): S is the last stack that this thread looked for, and so in its memo, or in `walked` where it must not
//    be remembered. The record of a throw, while the program's what() runs: S is in `kept`.
//
// A meeting: the barrier of all threads (meet_other_threads) comes between the stores before it and the look at each
// thread's `in_tracker`. Whoever is not seen in a section then either ended it before, or begins the next one behind
// the barrier, and sees those stores. A thread that sits in a section for ever (it was stopped there, or left it by a
// jump) keeps anything from being freed; the room's limit holds all the same.
//
// Roots, and how many stacks they keep: each thread's memos (about 700 of 40 frames, and 1024 with Python frames), its
// counters (168), its throws in flight (8); the last 128 to 256 allocations that each thread ended, and those whose
// records are not used again, as long as there is room; the tables, all of fixed size (README.md).
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/spin_lock.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/stacks/stack_table.h"

namespace culprit {

class CancelTable;
class Pictures;
class PythonFrames;
class StackMemo;
class ThreadPaths;
struct PythonMemo;

// What one thread holds. Written by that thread only, except for what the list needs. All zeros = nothing.
struct StackHolder {
  const bool* in_section;  // the thread's `in_tracker`
  const StackMemo* memo;
  const PythonMemo* python;
  const ThreadPaths* paths;  // its exceptions in flight; nullptr = none
  format::Ref walked;        // the last stack that it did not find in its memo
  format::Ref kept[4];       // of throws that are being recorded, while the program's own code runs
  std::uint32_t seen;        // the meeting in which it was seen outside last
  StackHolder* next;
};

// All threads that may hold stacks. All zeros = none; lives in memory that the kernel wipes in a fork child.
// Thread-safe.
class StackHolders {
 public:
  void enter(StackHolder* holder);
  // The thread holds nothing from now on. Its memory may go away afterwards.
  void leave(StackHolder* holder);
  // There is a thread that can not be watched: nothing may be freed from now on.
  void enter_unwatched() { unwatched_.store(true); }
  bool all_watched() const { return !unwatched_.load(); }

  // Begins a meeting. Where the system has no barrier for it, it takes some milliseconds.
  void begin_meeting();
  // Whether every thread was seen outside of the tracker since. `self`: the caller's, which holds nothing now.
  bool have_met(const StackHolder* self);
  // Marks what they hold.
  void mark(StackTable& stacks);

 private:
  SpinLock lock_;
  StackHolder* first_;
  std::uint32_t meeting_;
  std::uint64_t not_before_ns_;
  std::atomic<bool> unwatched_;
};

class StackCollection {
 public:
  struct Parts {
    StackTable& stacks;
    StackHolders& holders;
    ModuleTable& modules;
    PythonFrames* python;  // may be nullptr
    Pictures* pictures;    // may be nullptr
    CancelTable* cancels;  // may be nullptr
    DumpWriter& dump;
  };

  // Whether step() has something to do: cheap.
  bool is_due(const Parts& parts) const {
    return wants(parts) || phase_.load(std::memory_order_relaxed) != Phase::kIdle;
  }

  // Begins a collection, or goes on with it, as far as it gets. The calling thread holds no stack, but for what its
  // StackHolder says. Thread-safe; of several threads one does it. Where others keep it from going on and new stacks
  // have taken a quarter more room than they should, the caller sleeps for 200 us, once: a thread that lost its
  // processor in the midst of a section gets it back, and few new stacks come meanwhile.
  void step(const Parts& parts, const StackHolder* self);

 private:
  enum class Phase : std::uint32_t { kIdle = 0, kFirstMeeting, kSecondMeeting };
  void advance(const Parts& parts, const StackHolder* self);
  static bool wants(const Parts& parts);
  static void mark_allocations(const Parts& parts, bool forget_ended);
  static void mark_tables(const Parts& parts);
  void finish(const Parts& parts);

  std::atomic<std::uint32_t> busy_;
  std::atomic<Phase> phase_;
  bool forget_ended_;  // in this collection
  bool forgot_;        // in any
};

}  // namespace culprit
