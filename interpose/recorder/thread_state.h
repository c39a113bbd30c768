// What a thread needs at hand, in one initial-exec thread-local variable: the default TLS model calls __tls_get_addr,
// which may call malloc, which the target may have replaced by something that calls CUDA. It uses up static TLS: keep
// it small.
#pragma once

#include <cstdint>

#include "interpose/base/clock.h"
#include "interpose/base/placement.h"
#include "interpose/dump/contexts.h"

namespace culprit {

class SpinLock;
struct OpenMarks;
struct ThreadMemory;
class ThreadPaths;

// What every call touches comes first, in two cache lines.
struct alignas(64) ThreadState {
  static constexpr std::uint32_t kNoSession = ~0U;
  static constexpr std::uint32_t kNoEpoch = ~0U;

  // Frame address of the outermost hook that this thread is in, nullptr = in none. An address and not a flag: a jump or
  // a cancellation out of a hook clears neither, but an unwind tells whether the frame is still there (hook_entry.h).
  const char* outermost_hook;
  bool injected;                // the driver call of the hook it is in was made to fail by CULPRIT_FAIL
  std::uint8_t calls_to_watch;  // successful calls that may still be the retry of a failed one
  bool in_tracker;              // inside our own bookkeeping: a signal handler's CUDA call is counted, not recorded
  // Equal to Process::session while something is recorded and this thread has all that it takes: `memory`, `paths` and
  // `counters` are there then.
  std::uint32_t session = kNoSession;
  std::uint32_t index;               // in the dump's threads
  std::uint32_t path;                // in `paths`: of the stack that current_stack() returned last, 0 = not known
  int* error_number;                 // the thread's errno
  ThreadMemory* memory;              // nullptr = none
  ThreadPaths* paths;                // nullptr = none
  format::ThreadCounters* counters;  // nullptr = no room in the dump
  // Device memory that this thread made and ended, not yet added to the device's sum.
  std::int64_t live_delta;

  std::uint8_t live_device;
  bool named;         // by the program (thread_names.h)
  std::uint8_t ends;  // how often thread-specific destructors have told of its end
  // The place of the current context. Valid while the contexts' epoch stands and no call of this thread made another
  // one current (see changes_context() in hooks.h).
  std::uint32_t context_epoch;
  Place context_place;
  std::uint64_t made;   // records that name this thread as their maker ...
  std::uint64_t ended;  // ... and those of them that it ended itself
  EventTimes times;
  // Of what is open in the thread (marks.h), kUnresolvedLabel: not known yet.
  format::Ref label;

  // The stream that memory was last allocated on. Valid while the streams' and the contexts' epochs stand.
  CUstream stream;
  std::uint32_t stream_epoch;
  std::uint32_t stream_context_epoch;
  Place stream_place;
  std::uint32_t generation;  // of the Process that all this belongs to: a fork child starts anew

  void forget_context() { context_epoch = kNoEpoch; }
  std::uint32_t owner_of_locks() const { return CULPRIT_LIKELY(owner != 0) ? owner : 1; }

  char* own_stack;         // own_stack.h: nullptr = none yet
  bool own_stack_locked;   // perhaps, by mlockall(): not asked yet
  bool on_own_stack;       // running there, with all signals blocked
  bool past_its_end;       // the thread's end was noted for good: it is in no list any more
  std::uint32_t owner;     // of locks that this thread takes: the kernel's thread number, 0 = not asked for yet
  SpinLock* shard;         // of the live table, that this thread holds or waits for; nullptr = none
  OpenMarks* marks;        // nullptr = none
  const char* what_frame;  // inside what() of an exception that abandoned something: frame of the note that asks it
  void* runtime_free;      // runtime_frees.cpp: what free_at_exit() has to call

  // known_threads.h
  std::uint32_t known_in;  // the list that it is in, 0 = none
  bool seen_outside;
  ThreadState* next_known;
};

// __thread and not thread_local: that asks on every access, in a file that does not see the definition, whether a
// constructor has to run.
extern CULPRIT_OWN __thread ThreadState thread_state __attribute__((tls_model("initial-exec")));

}  // namespace culprit
