// For work that one thread does at a time, while others that want to do it skip it. No thread waits for this lock, so
// it may be held while the driver is called. All zeros = free.
#pragma once

#include <atomic>
#include <cstdint>

namespace culprit {

class SkipLock {
 public:
  // Returns false when the work is being done.
  bool try_lock() { return held_.exchange(1, std::memory_order_acquire) == 0; }
  void unlock() { held_.store(0, std::memory_order_release); }

 private:
  std::atomic<std::uint32_t> held_;
};

}  // namespace culprit
