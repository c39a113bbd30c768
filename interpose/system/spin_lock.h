// A lock for critical sections of a few instructions.
//
// Not std::mutex: a hook may run before libc's constructors, or in a fork child whose parent had the mutex locked. A
// SpinLock that is all zeros is free, so a fork child frees all locks by clearing their memory.
//
// A waiting thread sleeps after a few tries, in the kernel's queue of the lock's word, and says so in the word:
// unlock() then wakes one thread. So a waiter costs no processor time, and a lock without waiters needs no system call.
// (Waiters that look again every millisecond leave the holder no processor when there are a thousand of them.) A waiter
// does not spin with sched_yield(), which never lets a thread of lower priority run: a SCHED_FIFO thread would wait for
// ever for a holder on the same processor. Nearly every holder runs with all signals blocked (own_stack.h) and so
// releases the lock. If a holder may be interrupted and never continue, take the lock with try_lock_for().
//
// Rejected: FUTEX_LOCK_PI, which would lend the holder a waiter's priority. Its words hold the kernel's number of the
// holder, which the recorder would have to know before a thread's first lock, and a seccomp filter that allows
// FUTEX_WAIT may forbid it.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

#ifdef CULPRIT_ASSERTIONS
// Of the calling thread.
extern CULPRIT_OWN __thread int held_spin_locks __attribute__((tls_model("initial-exec")));
inline bool holds_no_spin_lock() { return held_spin_locks == 0; }
#else
bool holds_no_spin_lock();  // for CULPRIT_ASSERT() only, which does not call it
#endif

class SpinLock {
 public:
  void lock() {
    std::uint32_t present = kFree;
    if (!held_.compare_exchange_strong(present, kHeld, std::memory_order_acquire)) wait(kForEver, kHeld);
    note_held(1);
  }
  // Returns false when the lock was not free for about `milliseconds`. After such a timeout other threads are refused
  // at once while the lock is still held. `owner` (1 to 2^30 - 1) is the value for is_held_by().
  bool try_lock_for(std::uint32_t milliseconds, std::uint32_t owner = kHeld) {
    std::uint32_t present = kFree;
    const bool locked = CULPRIT_LIKELY(held_.compare_exchange_strong(present, owner, std::memory_order_acquire)) ||
                        wait(milliseconds, owner);
    if (CULPRIT_LIKELY(locked)) note_held(1);
    return locked;
  }
  bool is_held_by(std::uint32_t owner) const { return (held_.load(std::memory_order_relaxed) & kOwner) == owner; }
  void unlock() {
    note_held(-1);
    if (CULPRIT_UNLIKELY((held_.exchange(kFree, std::memory_order_release) & kAwaited) != 0)) wake();
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  // Combined with the owner: threads may sleep until the lock is free; a wait timed out.
  static constexpr std::uint32_t kAwaited = 1U << 31;
  static constexpr std::uint32_t kGivenUp = 1U << 30;
  static constexpr std::uint32_t kOwner = kGivenUp - 1;
  static constexpr std::uint32_t kForEver = ~std::uint32_t{0};
  CULPRIT_COLD bool wait(std::uint32_t milliseconds, std::uint32_t owner);
  CULPRIT_COLD void wake();
  static void note_held([[maybe_unused]] int change) {
#ifdef CULPRIT_ASSERTIONS
    held_spin_locks += change;
#endif
  }

  std::atomic<std::uint32_t> held_;
};

class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

// Sleeps while `word` is `value`, at most `microseconds`. Spurious wake-ups are possible. Not a cancellation point;
// keeps errno.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, std::uint32_t microseconds);
// Wakes one thread that sleeps on `word`, or all of them.
void wake_sleeper(const std::atomic<std::uint32_t>& word, bool all);

}  // namespace culprit
