#include "interpose/base/spin_lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <time.h>

#include "interpose/base/clock.h"
#include "interpose/base/machine.h"
#include "interpose/base/os.h"

namespace culprit {

std::atomic<std::uint32_t> SpinLock::sleepers_;

namespace {

constexpr int kTurnsBeforeSleep = 100;
constexpr std::uint32_t kFirstSleepUs = 50;
constexpr std::uint32_t kLongestSleepUs = 1000;

}  // namespace

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, std::uint32_t microseconds) {
  os.futex(reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, microseconds);
}

void wake_sleeper(const std::atomic<std::uint32_t>& word, bool all) {
  os.futex(reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, all ? INT_MAX : 1, 0);
}

void sleep_microseconds(std::uint32_t microseconds) {
  std::atomic<std::uint32_t> never_woken{0};
  sleep_while(never_woken, 0, microseconds);
}

bool SpinLock::wait(std::uint32_t milliseconds, std::uint32_t owner) {
  auto take = [&](std::uint32_t* present) {
    *present = kFree;
    return held_.compare_exchange_strong(*present, owner, std::memory_order_acquire);
  };
  std::uint32_t present = kFree;
  for (int turn = 0; turn < kTurnsBeforeSleep; ++turn) {
    if (held_.load(std::memory_order_relaxed) == kFree && take(&present)) return true;
    pause_processor();
  }
  const bool for_ever = milliseconds == kForEver;
  const std::uint64_t give_up_ns = for_ever ? 0 : clock_ns(CLOCK_MONOTONIC) + std::uint64_t{milliseconds} * 1000000;
  std::uint32_t sleep_us = kFirstSleepUs;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool locked = false;
  for (;;) {
    locked = take(&present);
    if (locked) break;
    if (!for_ever && ((present & kGivenUp) != 0 || clock_ns(CLOCK_MONOTONIC) >= give_up_ns)) {
      held_.compare_exchange_strong(present, present | kGivenUp, std::memory_order_relaxed);
      break;
    }
    sleep_while(held_, present, sleep_us);
    if (sleep_us < kLongestSleepUs) sleep_us *= 2;
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return locked;
}

void SpinLock::wake() { wake_sleeper(held_, false); }

}  // namespace culprit
