#include "interpose/system/own_ranges.h"

#include <algorithm>
#include <atomic>

#include "interpose/base/hash.h"

namespace culprit {
namespace {

struct Slot {
  std::atomic<std::uint64_t> begin;  // 0 = free
  std::atomic<std::uint64_t> bytes;  // 0 = not stored yet
};

constexpr int kProbes = 64;

Slot slots[kMostOwnRanges];

Slot& slot_of(std::uint64_t begin, int probe) {
  return slots[(mix(begin) + static_cast<std::uint64_t>(probe)) % kMostOwnRanges];
}

void clear(Slot* slot) {
  slot->bytes.store(0, std::memory_order_relaxed);
  slot->begin.store(0, std::memory_order_release);
}

}  // namespace

void note_own_range(const void* begin, std::uint64_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(begin);
  for (int probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slot_of(address, probe);
    std::uint64_t none = 0;
    if (!slot.begin.compare_exchange_strong(none, address, std::memory_order_acq_rel)) continue;
    slot.bytes.store(bytes, std::memory_order_release);
    return;
  }
}

void forget_own_range(const void* begin) {
  const auto address = reinterpret_cast<std::uint64_t>(begin);
  for (int probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slot_of(address, probe);
    if (slot.begin.load(std::memory_order_acquire) != address) continue;
    clear(&slot);
    return;
  }
}

void forget_own_ranges_in(const void* begin, std::uint64_t bytes) {
  for (Slot& slot : slots) {
    if (slot.begin.load(std::memory_order_acquire) - reinterpret_cast<std::uint64_t>(begin) < bytes) clear(&slot);
  }
}

void forget_all_own_ranges() {
  for (Slot& slot : slots) {
    if (slot.begin.load(std::memory_order_acquire) != 0) clear(&slot);
  }
}

bool in_own_range(std::uint64_t address) {
  return std::any_of(slots, slots + kMostOwnRanges, [address](const Slot& slot) {
    const std::uint64_t begin = slot.begin.load(std::memory_order_acquire);
    return begin != 0 && address - begin < slot.bytes.load(std::memory_order_acquire);
  });
}

int sorted_own_ranges(OwnRange* ranges) {
  int count = 0;
  for (const Slot& slot : slots) {
    const std::uint64_t begin = slot.begin.load(std::memory_order_acquire);
    const std::uint64_t bytes = slot.bytes.load(std::memory_order_acquire);
    if (begin != 0 && bytes != 0) ranges[count++] = {begin, begin + bytes};
  }
  std::sort(ranges, ranges + count, [](const OwnRange& one, const OwnRange& other) { return one.begin < other.begin; });
  return count;
}

}  // namespace culprit
