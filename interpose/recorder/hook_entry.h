// Entering a hook while the calling thread is, or seems to be, in another one.
//
// There are four cases: the driver or another interposer calls back while it serves the user's call; a signal handler
// interrupted the hook, and calls CUDA; a handler interrupted the tracker's own work in the hook; or the thread left
// the hook by a jump or a cancellation, unnoticed. An unwind distinguishes them: is the hook's frame on the stack, and
// is there a signal frame in between?
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/recorder/thread_state.h"

namespace culprit {

// Marks the assembly stub that the calling thread is in as its hook: current_stack() begins there, and a detach waits
// for the thread. It may be nested in a hook: in a callback. (HookScope in hooks.h is the same for the hooks, which are
// never nested.)
class StubScope {
 public:
  // `frame`: of the stub. `marks` = false: does nothing.
  explicit StubScope(const std::uint64_t* frame, bool marks = true)
      : outer_(thread_state.outermost_hook), marks_(marks) {
    if (!marks) return;
    __atomic_store_n(&thread_state.outermost_hook, reinterpret_cast<const char*>(frame), __ATOMIC_RELAXED);
    // Either a detach sees this store, or this thread sees the detach's store (known_threads.h).
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~StubScope() {
    if (marks_) __atomic_store_n(&thread_state.outermost_hook, outer_, __ATOMIC_RELEASE);
  }
  StubScope(const StubScope&) = delete;
  StubScope& operator=(const StubScope&) = delete;

 private:
  const char* outer_;
  bool marks_;
};

enum class Entry : std::uint8_t {
  kOutermost,   // the user's call, to be recorded
  kNested,      // on behalf of a call that is being recorded
  kInHandler,   // a signal handler's call, to be recorded
  kUnrecorded,  // a signal handler's call that interrupted the tracker: counted
};

// Classifies the call of the hook with this frame address; thread_state.outermost_hook is set. If the outer hook was
// left by a jump, repairs the thread's state and counts it (repair_left_hook()). Keeps errno.
CULPRIT_COLD Entry enter_again(const char* frame);

// Whether the calling thread is in a hook. Repairs and counts a hook that was left by a jump.
bool is_in_hook();

// A cache of enter_again(): with another interposer each call of the user contains a nested one, and the result of one
// unwind holds for all calls with the same frames. One per thread; all zeros = empty.
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

}  // namespace culprit
