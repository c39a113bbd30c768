#include "interpose/system/spin_lock.h"

#include <linux/futex.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "interpose/system/clock.h"
#include "interpose/system/os.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using culprit::os;
using culprit::SpinGuard;
using culprit::SpinLock;

namespace {

decltype(os.futex) real_futex;
std::atomic<std::uint64_t> waits;
std::atomic<std::uint64_t> wakes;

void counting_futex(const std::uint32_t* word, int operation, std::uint32_t value, std::uint32_t microseconds) {
  ++(operation == FUTEX_WAIT_PRIVATE ? waits : wakes);
  real_futex(word, operation, value, microseconds);
}

void count_futex_calls() {
  real_futex = os.futex;
  waits = wakes = 0;
  os.futex = counting_futex;
}

std::uint64_t now() { return culprit::clock_ns(CLOCK_MONOTONIC); }

std::vector<std::thread> waiters(SpinLock* lock, int count, int turns, std::uint64_t* sum) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([=] {
      for (int turn = 0; turn < turns; ++turn) {
        const SpinGuard guard(*lock);
        ++*sum;
      }
    });
  }
  return threads;
}

void join(std::vector<std::thread>* threads) {
  for (std::thread& thread : *threads) thread.join();
}

}  // namespace

TEST_CASE("a lock is held by one of many threads at a time, and each of them gets it", "[spin-lock]") {
  SpinLock lock = {};
  std::uint64_t sum = 0;
  std::vector<std::thread> threads = waiters(&lock, 50, 2000, &sum);
  join(&threads);
  CHECK(sum == 100000);
}

TEST_CASE("threads that wait for a lock sleep until it is free", "[spin-lock]") {
  const culprit::RealOs restore;
  count_futex_calls();
  SpinLock lock = {};
  std::uint64_t sum = 0;
  lock.lock();
  const std::uint64_t begin = now();
  std::vector<std::thread> threads = waiters(&lock, 20, 1, &sum);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  lock.unlock();
  join(&threads);
  CHECK(sum == 20);
  // Each waits once; once more for each thread that was before it, at most; and at long intervals in case that a call
  // to wake it was lost.
  constexpr std::uint64_t kLookAgainNs = 200000000;
  CHECK(waits <= 20 + 20 * 20 / 2 + 20 * ((now() - begin) / kLookAgainNs));
  CHECK(wakes <= 21);
}

TEST_CASE("a lock that no thread waits for makes no system call", "[spin-lock]") {
  const culprit::RealOs restore;
  count_futex_calls();
  SpinLock waited_for = {};
  SpinLock lock = {};
  std::uint64_t sum = 0;
  waited_for.lock();
  std::vector<std::thread> threads = waiters(&waited_for, 1, 1, &sum);
  while (waits == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) const SpinGuard guard(lock);
  CHECK(wakes == 0);  // with a waiter of another lock, too
  waited_for.unlock();
  join(&threads);
  CHECK(sum == 1);
}

TEST_CASE("a bounded wait ends, and later ones are refused while the lock is held", "[spin-lock]") {
  SpinLock lock = {};
  constexpr std::uint32_t kOwner = 4194304;  // the largest number of a thread
  REQUIRE(lock.try_lock_for(1000, kOwner));
  CHECK(lock.is_held_by(kOwner));
  CHECK_FALSE(lock.is_held_by(1));
  std::uint64_t begin = now();
  CHECK_FALSE(lock.try_lock_for(20));
  CHECK(now() - begin >= 20000000);
  CHECK(lock.is_held_by(kOwner));
  begin = now();
  for (int i = 0; i < 10; ++i) CHECK_FALSE(lock.try_lock_for(100000));
  CHECK(now() - begin < 100000000000);
  lock.unlock();
  CHECK_FALSE(lock.is_held_by(kOwner));
  REQUIRE(lock.try_lock_for(20));
  lock.unlock();
}

TEST_CASE("a thread that gives up wakes no thread less", "[spin-lock]") {
  SpinLock lock = {};
  std::uint64_t sum = 0;
  for (int round = 0; round < 20; ++round) {
    lock.lock();
    std::vector<std::thread> threads = waiters(&lock, 4, 1, &sum);
    std::thread impatient([&] {
      if (lock.try_lock_for(1)) lock.unlock();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.unlock();
    join(&threads);
    impatient.join();
  }
  CHECK(sum == 80);
}
