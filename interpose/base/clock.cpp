#include "interpose/base/clock.h"

#include "interpose/base/restrictions.h"

namespace culprit {
std::uint64_t clock_ns(clockid_t clock) {
  struct timespec time = {};
  const bool ticks = clock == CLOCK_MONOTONIC_COARSE;
  (ticks || calls_restricted() ? clock_function() : system_clock)(clock, &time);
  return nanoseconds(time);
}

void Clock::start() {
  function_ = clock_function();
  start_ns_ = clock_ns(CLOCK_MONOTONIC);
  floor_.store(start_ns_, std::memory_order_relaxed);
  // Where the vDSO has no coarse clock (gVisor, valgrind, vdso=0) it is a system call, like the exact one here.
  auto cost_of = [](auto work) {
    return least_time(
        4, [] { return clock_ns(CLOCK_MONOTONIC); }, work);
  };
  const std::uint64_t of_ticks = cost_of([&] {
    for (int i = 0; i < 16; ++i) read(CLOCK_MONOTONIC_COARSE);
  });
  const std::uint64_t of_exact = cost_of([] {
    for (int i = 0; i < 16; ++i) clock_ns(CLOCK_MONOTONIC);
  });
  ticks_are_cheap_ = of_ticks * 2 < of_exact;
}

std::uint64_t Clock::now() {
  std::uint64_t time = clock_ns(CLOCK_MONOTONIC);
  std::uint64_t floor = floor_.load(std::memory_order_relaxed);
  while (floor < time && !floor_.compare_exchange_weak(floor, time, std::memory_order_relaxed)) {
  }
  return time - start_ns_;
}

void Clock::make_next_exact(EventTimes* times) {
  if (!ticks_are_cheap_) return;
  const std::uint64_t time = clock_ns(CLOCK_MONOTONIC);
  if (time > times->last) times->last = time - 1;
}

// By the vDSO, which gVisor has for this clock only.
std::uint64_t Clock::exact_event(EventTimes* times) { return later_event(times, read(CLOCK_MONOTONIC)); }

}  // namespace culprit
