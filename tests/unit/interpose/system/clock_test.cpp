#include "interpose/system/clock.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/catch.h"

using culprit::Clock;
using culprit::EventTimes;

namespace {

// Long enough for many ticks of any kernel, and for thousands of events in each.
constexpr std::uint64_t kSpan = 100000000;

}  // namespace

TEST_CASE("the times of a thread's events increase and are never ahead of the clock", "[clock]") {
  static Clock clock;
  clock.start();
  EventTimes times = {};
  std::uint64_t last = 0;
  std::uint64_t events = 0;
  bool increasing = true, ahead = false;
  for (const std::uint64_t begin = clock.now(); last < begin + kSpan; ++events) {
    const std::uint64_t time = clock.event(&times);
    increasing = increasing && time > last;
    last = time;
    // Reading the clock raises the times of later events: do so seldom, so that most of them are those of a busy
    // thread.
    if (events % 10000 == 0) ahead = ahead || time > clock.now();
  }
  CHECK(increasing);
  CHECK_FALSE(ahead);
  CHECK(events > 1000);
}

TEST_CASE("the event after a walk of a stack has the exact time", "[clock]") {
  static Clock clock;
  clock.start();
  EventTimes times = {};
  for (int i = 0; i < 100; ++i) {
    // Without a reading of the clock behind it, which would raise the event's time.
    const std::uint64_t before = clock.now();
    for (volatile int turn = 0; turn < 1000; ++turn) {
    }
    clock.make_next_exact(&times);
    const std::uint64_t time = clock.event(&times);
    CHECK(time > before);
    CHECK(time <= clock.now());
  }
}

TEST_CASE("no event that comes after a reading of the clock is earlier than it", "[clock]") {
  static Clock clock;
  clock.start();
  std::atomic<std::uint64_t> reading{0};
  std::atomic<bool> done{false};
  std::atomic<int> earlier{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      EventTimes times = {};
      while (!done.load()) {
        const std::uint64_t before = reading.load(std::memory_order_acquire);
        if (clock.event(&times) < before) earlier.fetch_add(1);
      }
    });
  }
  for (std::uint64_t now = 0, begin = clock.now(); now < begin + kSpan;) {
    now = clock.now();
    reading.store(now, std::memory_order_release);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(earlier.load() == 0);
}
