// The handles that the fake driver has given out: a table of fixed size, changed by single atomic operations only, so
// that threads, signal handlers and fork children never wait for each other or find it half changed.
#pragma once

#include <stdint.h>

namespace fake {

enum class Kind : uint64_t { kMemory = 1, kAsyncMemory, kHostMemory, kEvent, kStream, kContext };

class HandleTable {
 public:
  // A handle that was never given out before, or 0 when too many live.
  uint64_t make(Kind kind, uint64_t bytes) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const uint64_t number = __atomic_add_fetch(&last_, 1, __ATOMIC_RELAXED);
      Slot& slot = slots_[number % kSlots];
      uint64_t expected = 0;
      if (!__atomic_compare_exchange_n(&slot.owner, &expected, kTaken, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        continue;
      slot.bytes = bytes;
      __atomic_store_n(&slot.owner, number << 4 | static_cast<uint64_t>(kind), __ATOMIC_RELEASE);
      __atomic_add_fetch(&live_, 1, __ATOMIC_RELAXED);
      __atomic_add_fetch(&used_, bytes, __ATOMIC_RELAXED);
      return kBase + number * kStep;
    }
    return 0;
  }

  // False when the handle is not live, or is of another kind.
  bool end(uint64_t handle, Kind kind) {
    if (handle < kBase || (handle - kBase) % kStep != 0) return false;
    const uint64_t number = (handle - kBase) / kStep;
    Slot& slot = slots_[number % kSlots];
    const uint64_t bytes = slot.bytes;
    uint64_t expected = number << 4 | static_cast<uint64_t>(kind);
    if (!__atomic_compare_exchange_n(&slot.owner, &expected, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return false;
    __atomic_sub_fetch(&live_, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&used_, bytes, __ATOMIC_RELAXED);
    return true;
  }

  uint64_t live() const { return __atomic_load_n(&live_, __ATOMIC_RELAXED); }
  uint64_t used_bytes() const { return __atomic_load_n(&used_, __ATOMIC_RELAXED); }

 private:
  static constexpr uint64_t kSlots = 1 << 16;  // a guest that locks all its memory locks these
  static constexpr int kAttempts = 1 << 16;
  static constexpr uint64_t kBase = 0x100000000000;
  static constexpr uint64_t kStep = 512;  // as the real driver's addresses
  static constexpr uint64_t kTaken = ~uint64_t{0};

  struct Slot {
    uint64_t owner;  // number << 4 | kind; 0: free
    uint64_t bytes;
  };
  uint64_t last_ = 0;
  uint64_t live_ = 0;
  uint64_t used_ = 0;
  Slot slots_[kSlots] = {};
};

}  // namespace fake
