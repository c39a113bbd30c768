// The state of a thread, in one initial-exec thread-local variable: the default TLS model calls __tls_get_addr, which
// may call malloc, which the target may have replaced by code that calls CUDA. It uses static TLS, so keep it small.
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

// Fields of the hot path come first, in two cache lines.
struct alignas(64) ThreadState {
  static constexpr std::uint32_t kNoSession = ~0U;
  static constexpr std::uint32_t kNoEpoch = ~0U;

  // Frame address of the outermost hook that this thread is in, nullptr = none. It is an address instead of a flag,
  // because a jump or a cancellation out of a hook does not clear it; an unwind then finds whether the frame still
  // exists (hook_entry.h).
  const char* outermost_hook;
  bool injected;                // the driver call of the hook it is in was made to fail by CULPRIT_FAIL
  std::uint8_t calls_to_watch;  // number of next successful calls that may be a retry of a failed one
  bool in_tracker;              // inside our own bookkeeping: a signal handler's CUDA call is counted, not recorded
  // Equal to Process::session while recording is on and this thread has `memory`, `paths` and `counters`.
  std::uint32_t session = kNoSession;
  std::uint32_t index;               // in the dump's threads
  std::uint32_t path;                // in `paths`: path of current_stack()'s last result, 0 = not known
  int* error_number;                 // the thread's errno
  ThreadMemory* memory;              // nullptr = none
  ThreadPaths* paths;                // nullptr = none
  format::ThreadCounters* counters;  // nullptr = no room in the dump
  // Device memory that this thread made and ended, not yet added to the device's sum.
  std::int64_t live_delta;

  std::uint8_t live_device;
  bool named;         // by the program (thread_names.h)
  std::uint8_t ends;  // calls of its thread-specific destructors so far
  // The place of the current context. Valid until the contexts' epoch changes or a call of this thread changes the
  // current context (see changes_context() in hooks.h).
  std::uint32_t context_epoch;
  Place context_place;
  std::uint64_t made;   // records that name this thread as their maker ...
  std::uint64_t ended;  // ... and those of them that it ended itself
  EventTimes times;
  // Label of the open marks and ranges (marks.h); kUnresolvedLabel: not known yet.
  format::Ref label;

  // The stream that memory was last allocated on. Valid until the streams' or the contexts' epoch changes.
  CUstream stream;
  std::uint32_t stream_epoch;
  std::uint32_t stream_context_epoch;
  Place stream_place;
  std::uint32_t generation;  // of the Process that this state belongs to; differs in a fork child

  void forget_context() { context_epoch = kNoEpoch; }
  std::uint32_t owner_of_locks() const { return CULPRIT_LIKELY(owner != 0) ? owner : 1; }

  char* own_stack;         // own_stack.h: nullptr = none yet
  bool own_stack_locked;   // possibly, by mlockall(): not checked yet
  bool on_own_stack;       // running on it, with all signals blocked
  bool past_its_end;       // the thread's end was handled: it was removed from all lists
  std::uint32_t owner;     // of locks that this thread takes: the kernel's thread ID, 0 = not known yet
  SpinLock* shard;         // lock of the live table's shard that this thread holds or waits for; nullptr = none
  OpenMarks* marks;        // nullptr = none
  const char* what_frame;  // during what() of an abandoning exception: frame of its caller
  void* runtime_free;      // runtime_frees.cpp: the function that free_at_exit() must call

  // known_threads.h
  std::uint32_t known_in;  // the list that contains it, 0 = none
  bool seen_outside;
  ThreadState* next_known;
};

// __thread instead of thread_local, which would check on every access from another file whether a constructor must run.
extern CULPRIT_OWN __thread ThreadState thread_state __attribute__((tls_model("initial-exec")));

}  // namespace culprit
