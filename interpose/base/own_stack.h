// A stack of the tracker's own for each thread, for the slow ways of recording.
//
// A thread of the guest may have 16 KiB of stack, or be a coroutine with a page left. What the tracker does on such a
// stack has to fit into 2 KiB on top of what the driver takes. So all that is not done on every call (the first sight
// of a stack, starting, a thread's registration and end, throws, sweeps, the growth of a table) runs on this stack.
//
// All signals are blocked meanwhile. A handler of the guest must find its thread on the thread's own stack:
// conservative garbage collectors scan from the stack pointer, and handlers jump out. It follows that what runs here
// always comes to its end, can not be entered again by its own thread, and can not be left by a jump or a cancellation.
#pragma once

#include "interpose/base/placement.h"

namespace culprit {

// Runs work(argument) there, or in place when the calling thread is there already. False when there was no memory for a
// stack and work did not run: it is counted where the caller knows what was lost. Thread-safe and async-signal-safe;
// leaves errno alone.
CULPRIT_COLD bool run_on_own_stack(void (*work)(void*), void* argument);

// The same for a function object. Its result is returned; a default-constructed one when it did not run.
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

// Gives the calling thread's stack back. Not to be called there. A later slow way makes a new one.
void release_own_stack();

}  // namespace culprit
