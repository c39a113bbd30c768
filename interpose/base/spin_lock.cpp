#include "interpose/base/spin_lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <time.h>

#include "interpose/base/clock.h"
#include "interpose/base/machine.h"
#include "interpose/base/os.h"

namespace culprit {

namespace {

constexpr int kTurnsBeforeSleep = 100;
// A waiter that was woken may leave by a jump out of a signal handler, and the lock's next holder does not know of the
// others. They notice it after this time.
constexpr std::uint32_t kLongestSleepUs = 200000;

}  // namespace

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, std::uint32_t microseconds) {
  os.futex(reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, microseconds);
}

void wake_sleeper(const std::atomic<std::uint32_t>& word, bool all) {
  os.futex(reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, all ? INT_MAX : 1, 0);
}

bool SpinLock::wait(std::uint32_t milliseconds, std::uint32_t owner) {
  std::uint32_t present = kFree;
  for (int turn = 0; turn < kTurnsBeforeSleep; ++turn) {
    present = kFree;
    if (held_.load(std::memory_order_relaxed) == kFree &&
        held_.compare_exchange_strong(present, owner, std::memory_order_acquire))
      return true;
    pause_processor();
  }
  const bool for_ever = milliseconds == kForEver;
  const std::uint64_t limit_ns = std::uint64_t{milliseconds} * 1000000;
  const std::uint64_t begin_ns = for_ever ? 0 : clock_ns(CLOCK_MONOTONIC);
  for (;;) {
    present = held_.load(std::memory_order_relaxed);
    if (present == kFree) {
      // There may be other sleepers: only one was woken.
      if (held_.compare_exchange_strong(present, owner | kAwaited, std::memory_order_acquire)) return true;
      continue;
    }
    const std::uint64_t waited_ns = for_ever ? 0 : clock_ns(CLOCK_MONOTONIC) - begin_ns;
    const bool gives_up = !for_ever && ((present & kGivenUp) != 0 || waited_ns >= limit_ns);
    // A thread that gives up may have been the one that was woken: the present holder wakes another one.
    const std::uint32_t wanted = present | kAwaited | (gives_up ? kGivenUp : 0);
    if (wanted != present && !held_.compare_exchange_strong(present, wanted, std::memory_order_relaxed)) continue;
    if (gives_up) return false;
    const std::uint64_t left_us = for_ever ? kLongestSleepUs : (limit_ns - waited_ns) / 1000 + 1;
    sleep_while(held_, wanted, left_us < kLongestSleepUs ? static_cast<std::uint32_t>(left_us) : kLongestSleepUs);
  }
}

void SpinLock::wake() { wake_sleeper(held_, false); }

}  // namespace culprit
