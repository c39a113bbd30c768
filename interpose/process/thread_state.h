// The state of a thread, in one initial-exec thread-local variable: the default TLS model calls __tls_get_addr, which
// may call malloc, which the target may have replaced by code that calls CUDA. It uses static TLS, so keep it small.
//
// Each folder's part is a struct that the folder defines. The parts that base/ and dump/ reach themselves are variables
// of their own (system/own_stack.h, dump/thread_part.h), as are the rare ones (thread_end.cpp, causes/exceptions.cpp,
// hooks/runtime_frees.cpp).
#pragma once

#include <cstdint>

#include "interpose/base/linked_list.h"
#include "interpose/base/placement.h"
#include "interpose/dump/thread_part.h"
#include "interpose/owners/error_returns.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/system/clock.h"
#include "interpose/system/own_stack.h"

namespace culprit {

struct OpenMarks;
struct StreamSort;
struct ThreadMemory;
struct ThreadState;

// The part of ThreadState that belongs to known_threads.h.
struct KnownThread {
  std::uint32_t list;  // the list that contains the thread, 0 = none
  bool seen_outside;
  bool past_its_end;           // the thread's end was handled: it was removed from all lists
  const StackOfThread* stack;  // for the other threads
  ThreadState* state;          // that contains this
  ListLink<KnownThread> link;
};

// The label of an allocation whose thread has open marks or ranges that are not in the dump yet.
constexpr format::Ref kUnresolvedLabel = 0xffffffff;

// The part of ThreadState that belongs to marks.h.
struct ThreadMarks {
  format::Ref label;  // of the open marks and ranges; kUnresolvedLabel: not known yet
  OpenMarks* open;    // nullptr = none

  // The label of the thread's first allocation in a dump.
  format::Ref at_start() const { return open == nullptr ? 0 : kUnresolvedLabel; }
};

// Sums of the events that this thread recorded (live_bytes.h, record_ends.h).
struct ThreadSums {
  // Device memory that this thread made and ended, not yet added to the device's sum.
  std::int64_t live_delta;
  std::uint64_t window;   // they are added as soon as `live_delta` is outside of [-4 MiB, window - 4 MiB]
  std::uint64_t changes;  // of device memory so far, without those of changes_alike()
  std::uint64_t made;     // records that name this thread as their maker ...
  std::uint64_t ended;    // ... and those of them that it ended itself
  std::uint8_t live_device;
};

// The place of the stream that this thread ended last, for its next one (stream_use.h).
struct VacantStream {
  StreamSort* sort;  // nullptr = none
  std::uint32_t generation;
};

// Fields of the hot path come first.
struct alignas(64) ThreadState {
  static constexpr std::uint32_t kNoSession = ~0U;

  // Frame address of the outermost hook that this thread is in, nullptr = none. It is an address instead of a flag,
  // because a jump or a cancellation out of a hook does not clear it; an unwind then finds whether the frame still
  // exists (hook_entry.h).
  const char* outermost_hook;
  bool hook_changes_memory;  // that hook may change the live memory; no record shows it before the hook ends
  FailureWatch failures;
  bool in_tracker;  // inside our own bookkeeping: a signal handler's CUDA call is counted, not recorded
  // Equal to Process::session while recording is on and this thread has `memory`, paths and counters.
  std::uint32_t session = kNoSession;
  std::uint32_t index;       // in the dump's threads
  std::uint32_t generation;  // of the Process that this state belongs to; differs in a fork child
  int* error_number;         // the thread's errno
  ThreadMemory* memory;      // nullptr = none
  PathPart paths;
  DumpPart dump;
  ThreadSums sums;
  VacantStream vacant_stream;
  EventTimes times;
  ThreadMarks marks;
  KnownThread known;
};

// __thread instead of thread_local, which would check on every access from another file whether a constructor must run.
extern CULPRIT_OWN __thread ThreadState thread_state __attribute__((tls_model("initial-exec")));

}  // namespace culprit
