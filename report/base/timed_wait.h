// Waits for a condition variable for a limited time, in packages that run with glibc 2.28.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace culprit::report {

// As changed.wait_for(lock, longest, is_so): returns is_so(). In short steps by the time of day, which may be changed
// meanwhile: for the steady clock libstdc++ calls pthread_cond_clockwait(), which glibc has from 2.30 on.
template <typename Condition>
bool wait_at_most(std::condition_variable* changed, std::unique_lock<std::mutex>* lock,
                  std::chrono::steady_clock::duration longest, Condition is_so) {
  constexpr std::chrono::milliseconds kStep{200};
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!is_so()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::steady_clock::duration::zero()) return false;
    changed->wait_until(*lock,
                        std::chrono::system_clock::now() + std::min<std::chrono::steady_clock::duration>(left, kStep));
  }
  return true;
}

}  // namespace culprit::report
