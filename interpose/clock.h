// Nanoseconds since recording began, cheaply: the time stamp counter where it runs at one rate (x86 "invariant TSC"),
// measured against CLOCK_MONOTONIC and measured again as the process grows older; CLOCK_MONOTONIC elsewhere.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "interpose/placement.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace culprit {

inline std::uint64_t clock_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(time.tv_nsec);
}

// All zeros = not started. now() is thread-safe and async-signal-safe.
class Clock {
 public:
  void start() {
    start_ns_ = clock_ns(CLOCK_MONOTONIC);
    start_ticks_ = ticks();
    constant_rate_ = has_constant_rate();
  }

  std::uint64_t now() {
    if (!constant_rate_) return clock_ns(CLOCK_MONOTONIC) - start_ns_;
    std::uint64_t elapsed = ticks() - start_ticks_;
    std::uint64_t rate = rate_.load(std::memory_order_relaxed);
    if (rate == 0 || elapsed > trusted_until_.load(std::memory_order_relaxed)) return measure(elapsed);
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(elapsed) * rate >> 32);
  }

 private:
  static constexpr std::uint64_t kLeastNs = 10000000;  // shorter than this says too little about the rate

  // The longer the span, the better the rate: measured at 10 ms, and again whenever the age has grown fourfold.
  CULPRIT_COLD std::uint64_t measure(std::uint64_t elapsed) {
    std::uint64_t ns = clock_ns(CLOCK_MONOTONIC) - start_ns_;
    if (ns >= kLeastNs && elapsed != 0) {
      rate_.store(static_cast<std::uint64_t>((static_cast<unsigned __int128>(ns) << 32) / elapsed),
                  std::memory_order_relaxed);
      trusted_until_.store(elapsed * 4, std::memory_order_relaxed);
    }
    return ns;
  }

#if defined(__x86_64__)
  static std::uint64_t ticks() { return __rdtsc(); }
  static bool has_constant_rate() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
  }
#else
  static std::uint64_t ticks() { return 0; }
  static bool has_constant_rate() { return false; }
#endif

  std::uint64_t start_ns_;
  std::uint64_t start_ticks_;
  bool constant_rate_;
  std::atomic<std::uint64_t> rate_;  // nanoseconds a tick, times 2^32
  std::atomic<std::uint64_t> trusted_until_;
};

}  // namespace culprit
