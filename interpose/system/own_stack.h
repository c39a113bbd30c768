// A separate stack of the tracker for each thread, used by the slow paths of recording.
//
// A thread of the program may have 16 KiB of stack, or be a coroutine with a page left. There the tracker may use only
// 2 KiB in addition to the driver's use. So all work outside the hot path (a new stack, the start, a thread's
// registration and end, throws, sweeps, the growth of a table) runs on the tracker's own stack.
//
// All signals are blocked meanwhile: a handler of the program must run on the thread's normal stack, because
// conservative garbage collectors scan from the stack pointer, and handlers jump out. Therefore work on this stack
// always runs to its end: it cannot be reentered by its thread, or left by a jump or a cancellation.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

// The data of a thread for this file. All zeros = no stack yet.
struct StackOfThread {
  char* memory;           // nullptr = none yet
  unsigned valgrind;      // the stack's number there
  bool is_locked;         // possibly, by mlockall(): not checked yet
  bool is_running_on_it;  // with all signals blocked
};
extern CULPRIT_OWN __thread StackOfThread stack_of_thread __attribute__((tls_model("initial-exec")));

// Whether the calling thread runs on the tracker's own stack. Async-signal-safe.
inline bool is_on_own_stack() { return stack_of_thread.is_running_on_it; }

// Whether eight bytes at `address` lie in the calling thread's own stack.
bool in_own_stack(std::uint64_t address);

// Runs work(argument) on the tracker's own stack, or in place when the caller is already there. Returns false when
// there was no memory for a stack and work did not run; the caller counts the loss. Thread-safe and async-signal-safe;
// keeps errno.
CULPRIT_COLD bool run_on_own_stack(void (*work)(void*), void* argument);

// run_on_own_stack() for a function object. Returns its result, or a default-constructed one when it did not run.
template <typename Work>
__attribute__((always_inline)) inline auto on_own_stack(Work work) -> decltype(work()) {
  using Result = decltype(work());
  if constexpr (__is_same(Result, void)) {
    run_on_own_stack([](void* pointer) { (*static_cast<Work*>(pointer))(); }, &work);
  } else {
    Result result{};
    auto keep = [&] { result = work(); };
    run_on_own_stack([](void* pointer) { (*static_cast<decltype(keep)*>(pointer))(); }, &keep);
    return result;
  }
}

// The calling thread gives up its own stack; do not call on that stack. The next slow path creates a new one.
// `may_keep`: a few are kept for later threads (not where memory is limited; asking for that takes 2 KiB of stack).
void release_own_stack(bool may_keep);

}  // namespace culprit
