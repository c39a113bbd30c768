// Entering a hook while the calling thread is, or seems to be, in another one.
//
// There are five cases: the driver or another interposer calls back while it serves the user's call; a signal handler
// interrupted the hook, and calls CUDA; a handler interrupted the tracker's own work in the hook; a handler switched to
// another user thread (swapcontext) in either place, which calls CUDA; or the thread left the hook by a jump or a
// cancellation, unnoticed. An unwind distinguishes them: is the hook's frame on the stack, is there a signal frame in
// between, and does the frame belong to another stack, which ends elsewhere?
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/process/thread_state.h"

namespace culprit {

// Marks the hook, or the assembly stub, that the calling thread is in: current_stack() begins at its frame, and a
// detach waits for the thread.
class HookScope {
 public:
  // `frame`: of the hook or stub. `outer`: the hook that the thread is in again afterwards. A hook has none; a stub may
  // be called in a hook's callback. `marks` = false: does nothing.
  __attribute__((always_inline)) explicit HookScope(const void* frame, const char* outer = nullptr, bool marks = true)
      : outer_(outer), marks_(marks) {
    if (!marks) return;
    __atomic_store_n(&thread_state.outermost_hook, static_cast<const char*>(frame), __ATOMIC_RELAXED);
    // Either a detach sees this store, or this thread sees the detach's store (known_threads.h).
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  __attribute__((always_inline)) ~HookScope() {
    if (marks_) __atomic_store_n(&thread_state.outermost_hook, outer_, __ATOMIC_RELEASE);
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  const char* outer_;
  bool marks_;
};

enum class Entry : std::uint8_t {
  kOutermost,   // the user's call, to be recorded
  kNested,      // on behalf of a call that is being recorded
  kInHandler,   // a signal handler's call, to be recorded
  kUnrecorded,  // the call of a handler, or of another user thread, while the tracker is interrupted: counted
};

// Classifies the call of the hook with this frame address; thread_state.outermost_hook is set. If the outer hook was
// left by a jump, repairs the thread's state and counts it (repair_left_hook()). Keeps errno.
CULPRIT_COLD Entry enter_again(const char* frame);

// Whether the calling thread is in a hook. Repairs and counts a hook that was left by a jump.
bool is_in_hook();

}  // namespace culprit
