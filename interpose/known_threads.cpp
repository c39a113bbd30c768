#include "interpose/known_threads.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/late_load.h"
#include "interpose/lifecycle.h"
#include "interpose/spin_lock.h"

namespace culprit {
namespace {

SpinLock lock;
ThreadState* first = nullptr;

void sleep_a_millisecond() {
  struct timespec time = {0, 1000000};
  syscall(SYS_nanosleep, &time, nullptr);  // no cancellation point
}

// Every other thread's stores are visible here afterwards, and what was stored here to their next loads. A kernel
// without it (before 4.14) gets time instead.
void meet_other_threads() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
      syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
    return;
  for (int i = 0; i < 20; ++i) sleep_a_millisecond();
}

bool is_outside(const ThreadState& state) {
  return __atomic_load_n(&state.outermost_hook, __ATOMIC_ACQUIRE) == nullptr &&
         !__atomic_load_n(&state.in_tracker, __ATOMIC_ACQUIRE);
}

}  // namespace

bool know_this_thread() {
  ThreadState& state = thread_state;
  if (state.known != ThreadState::Known::kNo) return state.known == ThreadState::Known::kYes;
  watch_thread_end();
  SpinGuard guard(lock);
  state.known = ThreadState::Known::kYes;
  state.next_known = first;
  first = &state;
  return true;
}

void forget_this_thread() {
  SpinGuard guard(lock);
  for (ThreadState** at = &first; *at != nullptr; at = &(*at)->next_known) {
    if (*at != &thread_state) continue;
    *at = thread_state.next_known;
    break;
  }
  thread_state.known = ThreadState::Known::kEnded;
}

bool wait_for_threads(int limit_ms) {
  meet_other_threads();
  {
    SpinGuard guard(lock);
    for (ThreadState* state = first; state != nullptr; state = state->next_known) state->seen_outside = false;
  }
  for (int waited = 0;; ++waited) {
    bool all = true;
    {
      SpinGuard guard(lock);
      for (ThreadState* state = first; state != nullptr; state = state->next_known) {
        state->seen_outside = state->seen_outside || state == &thread_state || is_outside(*state);
        all = all && state->seen_outside;
      }
    }
    if (all || waited >= limit_ms) return all;
    sleep_a_millisecond();
  }
}

void for_each_known_thread(void (*release)(ThreadState* state)) {
  SpinGuard guard(lock);
  for (ThreadState* state = first; state != nullptr; state = state->next_known) release(state);
}

InTracker::InTracker() : before_(thread_state.in_tracker) {
  if (!loaded_late()) return;
  thread_state.in_tracker = true;
  know_this_thread();
}

InTracker::~InTracker() {
  if (loaded_late()) thread_state.in_tracker = before_;
}

}  // namespace culprit
