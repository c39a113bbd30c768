// Nanoseconds since recording began, from CLOCK_MONOTONIC, and cheaply where every call asks.
//
// Reading that clock costs 26 ns on the H200's Xeon, its time stamp counter alone 15 ns; a pair of calls that makes and
// ends something costs the driver as little as 230. The time of the kernel's last tick (CLOCK_MONOTONIC_COARSE, every 1
// to 10 ms) is a word in memory. So a thread reads the clock itself for the first events of each tick, and takes the
// tick for those that come after: only a program that makes thousands of things a second notices.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

inline std::uint64_t nanoseconds(const struct timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(time.tv_nsec);
}

// Any clock of the system.
std::uint64_t clock_ns(clockid_t clock);

// The least that work() took in so many rounds, by now(): the first rounds find nothing in the processor's caches.
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

// A thread's part of the clock. All zeros = nothing read yet.
struct EventTimes {
  std::uint64_t tick;   // the kernel's last one that this thread saw
  std::uint64_t last;   // that the thread was given
  std::uint32_t exact;  // readings of the clock itself since that tick
};

// All zeros = not started. Every function but start() is thread-safe and async-signal-safe.
class Clock {
 public:
  void start();

  // The time now. No event that comes later, in any thread that knows of this call, gets an earlier one.
  std::uint64_t now();

  // The time of something that happens often, in the thread of `times`: later than the one before in this thread, and
  // behind the true time by less than a tick.
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

  Function function_;  // the kernel's own, in the vDSO, where it can be found: nobody stands in front of it
  std::uint64_t start_ns_;
  std::atomic<std::uint64_t> floor_;  // what now() said last
  bool ticks_are_cheap_;
};

}  // namespace culprit
