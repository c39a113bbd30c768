// A lock for critical sections of a few instructions.
//
// Not std::mutex: a hook may run before libc's constructors, inside a signal handler's window, or in a fork child whose
// parent had the mutex locked. A SpinLock that is all zeros is free, so that wiping the tracker's pages on fork frees
// them all.
#pragma once

#include <sched.h>

#include <atomic>

#include "interpose/placement.h"

namespace culprit {

class SpinLock {
 public:
  void lock() {
    if (held_.exchange(1, std::memory_order_acquire) != 0) wait();
  }
  void unlock() { held_.store(0, std::memory_order_release); }

 private:
  static constexpr int kSpinsBeforeYield = 200;
  CULPRIT_COLD void wait() {
    int spins = 0;
    do {
      while (held_.load(std::memory_order_relaxed) != 0) {
        pause();
        if (++spins >= kSpinsBeforeYield) {  // the holder may have been descheduled
          sched_yield();
          spins = 0;
        }
      }
    } while (held_.exchange(1, std::memory_order_acquire) != 0);
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  std::atomic<int> held_;
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

}  // namespace culprit
