// Remembers for a call site of the program which function its module is bound to, until another module may lie
// there.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/stacks/modules.h"

namespace culprit {

// Thread-safe, without a lock: of two threads that store at the same time one may be lost, and a slot that is being
// written is not read.
class CallSiteCache {
 public:
  // The target of the call of function `number` (0 to 7) at `caller`. find() searches for it when it is not known;
  // it may take long.
  template <typename Find>
  void* target(std::uint64_t number, const void* caller, Find find) {
    const std::uint64_t site = reinterpret_cast<std::uint64_t>(caller) * 8 + number;
    std::uint32_t generation = module_generation();
    Slot& slot = slots_[mix(site) % kSlots];
    if (slot.site.load(std::memory_order_acquire) == site) {
      void* known = slot.target.load(std::memory_order_relaxed);
      const std::uint32_t when = slot.generation.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (slot.site.load(std::memory_order_relaxed) == site && when == generation) return known;
    }
    if (!loader_count_is_known()) {
      find_loader_count();
      generation = module_generation();
    }
    void* found = find();
    slot.site.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    slot.target.store(found, std::memory_order_relaxed);
    slot.generation.store(generation, std::memory_order_relaxed);
    slot.site.store(site, std::memory_order_release);
    return found;
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> site;  // call address and function, 0 while being written
    std::atomic<void*> target;
    std::atomic<std::uint32_t> generation;
  };
  static constexpr std::uint64_t kSlots = 1024;
  Slot slots_[kSlots];
};

}  // namespace culprit
