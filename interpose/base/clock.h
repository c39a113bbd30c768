// Nanoseconds since recording began, from CLOCK_MONOTONIC, with a cheaper approximation for every call.
//
// Reading that clock costs 26 ns on the H200's Xeon, its time stamp counter alone 15 ns; a pair of calls that makes and
// ends something can cost the driver only 230. The time of the kernel's last tick (CLOCK_MONOTONIC_COARSE, every 1 to
// 10 ms) is a word in memory. So a thread reads the exact clock for the first events of each tick, and uses the tick's
// time for later ones. This affects only programs that make thousands of things a second.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

inline std::uint64_t nanoseconds(const struct timespec& time) {
  // The analyzer does not know what a raw system call writes.
  // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(time.tv_nsec);
}

std::uint64_t clock_ns(clockid_t clock);

// The shortest time of work() in `rounds` rounds, measured by now(): the first rounds run with cold caches.
template <typename Now, typename Work>
std::uint64_t least_time(int rounds, Now now, Work work) {
  std::uint64_t least = ~0ULL;
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t begin = now();
    work();
    std::uint64_t time = now() - begin;
    if (time < least) least = time;
  }
  return least;
}

// A thread's state of the clock. All zeros = nothing read yet.
struct EventTimes {
  std::uint64_t tick;   // the kernel's last tick that this thread saw
  std::uint64_t last;   // last time returned to the thread
  std::uint32_t exact;  // exact readings since that tick
};

// All zeros = not started. Every function but start() is thread-safe and async-signal-safe.
class Clock {
 public:
  void start();

  // The exact time. Any event that happens after this call, in any thread, gets a later or equal time.
  std::uint64_t now();

  // The time of a frequent event in the thread of `times`: later than the thread's previous event, and behind the true
  // time by less than a tick.
  std::uint64_t event(EventTimes* times) {
    if (CULPRIT_UNLIKELY(!ticks_are_cheap_)) return exact_event(times);
    std::uint64_t tick = read(CLOCK_MONOTONIC_COARSE);
    if (CULPRIT_UNLIKELY(tick != times->tick || times->exact < kExactEachTick)) {
      if (tick != times->tick) times->exact = 0;
      times->tick = tick;
      return exact_event(times);
    }
    std::uint64_t floor = floor_.load(std::memory_order_relaxed);
    std::uint64_t time = times->last + 1;
    if (time < floor) time = floor;
    return (times->last = time) - start_ns_;
  }

 private:
  using Function = int (*)(clockid_t, struct timespec*);
  static constexpr std::uint32_t kExactEachTick = 8;

  std::uint64_t read(clockid_t clock) {
    struct timespec time;
    function_(clock, &time);
    return nanoseconds(time);
  }
  std::uint64_t cost_of(clockid_t clock);
  CULPRIT_COLD std::uint64_t exact_event(EventTimes* times);

  Function function_;  // the vDSO's function if found: it cannot be interposed
  std::uint64_t start_ns_;
  std::atomic<std::uint64_t> floor_;  // last result of now()
  bool ticks_are_cheap_;
};

}  // namespace culprit
