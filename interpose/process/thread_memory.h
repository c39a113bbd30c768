// The private data of a thread, in two mappings, and those of ended threads that wait for the next ones.
//
// A program may start a thread for each task. A new mapping costs such a thread more than all of its calls: its pages
// fault, and before each mapping the limits and locks of the process's memory are read. So an ended thread's data is
// kept, if it used little of it, for a thread that starts later. It is cleared before: a later thread has the same
// addresses on its stack. Only libunwind's cache keeps its contents, which are about the code of loaded modules and
// have a generation of their own. Kept mappings are few, so that the memory of a program which once had thousands of
// threads goes back to the system; and none are kept where memory is limited.
#pragma once

#include <cstdint>

#include "interpose/dump/live_table.h"
#include "interpose/owners/error_returns.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/process/stack_holders.h"
#include "interpose/python_stacks/python_frames.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

// A cache of enter_again() (hook_entry.h): with another interposer each call of the user contains a nested one, and the
// result of one unwind holds for all calls with the same frames. One per thread; all zeros = empty.
struct NestingMemo {
  struct Entry {
    std::uint64_t distance;  // between the two frames, 0 = unused
    std::uint64_t outer_return;
    std::uint64_t inner_return;
  };
  static constexpr std::uint32_t kEntries = 4;
  Entry entries[kEntries];
  std::uint32_t next;
};

// All zeros = of a new thread.
struct ThreadMemory {
  ThreadRecords records;
  StackMemo stacks;
  PendingFailures failures;
  PythonMemo python;
  NestingMemo nestings;
  alignas(16) unsigned char judged[2560];            // exceptions.cpp
  alignas(64) unsigned char unwind_cache[48 << 10];  // libunwind's, see unwind_services.cpp
  StackHolder holder;
};

struct ThreadData {
  ThreadMemory* memory;  // nullptr = none
  ThreadPaths* paths;    // nullptr = none
};

// The part of Process that belongs to this file. Thread-safe. All zeros = nothing is kept.
class SpareThreadData {
 public:
  // Data of a new thread: an ended one's, or new mappings. Members are nullptr where there is no memory.
  ThreadData take(DumpWriter& dump);
  // The calling thread ends, and no other thread uses its data.
  void give(ThreadData data);
  // Frees what is kept; not while other threads use this.
  void free_memory();

 private:
  static constexpr std::uint32_t kMost = 16;
  SpinLock lock_;
  std::uint32_t count_;
  ThreadData kept_[kMost];
};

// Frees the mappings of a thread.
void free_thread_data(ThreadData data);

}  // namespace culprit
