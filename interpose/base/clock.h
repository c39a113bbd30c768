// Nanoseconds since recording began, from CLOCK_MONOTONIC, with a cheaper approximation for every call.
//
// The time of an event is that of the kernel's last tick (CLOCK_MONOTONIC_COARSE, every 1 to 10 ms): a word in memory.
// So frequent events read no time stamp counter, which a thread may be forbidden to read (PR_SET_TSC; strict seccomp
// forbids it too), and make no system call. A thread that has just walked a new stack takes the exact time for it.
// Exact times are read by a system call, which works where the counter is forbidden; the vDSO's function would read it.
//
// Rejected: exact times by the vDSO for the first events of each tick. They cost 26 ns, and a program under strict
// seccomp cannot read them at all.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/kernel_clock.h"
#include "interpose/base/placement.h"

namespace culprit {

// The time of a clock of the kernel, exact ones by a system call. Under a seccomp filter the vDSO's function reads
// them: the filter may kill for a call that programs rarely make.
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
  std::uint64_t last;  // last time returned to the thread
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
    return later_event(times, read(CLOCK_MONOTONIC_COARSE));
  }

  // The thread's next event gets the exact time, unless that is already over when it comes.
  CULPRIT_COLD void make_next_exact(EventTimes* times);

 private:
  std::uint64_t read(clockid_t clock) {
    struct timespec time;
    function_(clock, &time);
    return nanoseconds(time);
  }
  std::uint64_t later_event(EventTimes* times, std::uint64_t time) {
    std::uint64_t floor = floor_.load(std::memory_order_relaxed);
    if (time <= times->last) time = times->last + 1;
    if (time < floor) time = floor;
    return (times->last = time) - start_ns_;
  }
  CULPRIT_COLD std::uint64_t exact_event(EventTimes* times);

  ClockFunction function_;  // the vDSO's function if found: it cannot be interposed
  std::uint64_t start_ns_;
  std::atomic<std::uint64_t> floor_;  // last result of now()
  bool ticks_are_cheap_;
};

}  // namespace culprit
