// The device of each memory pool that the program allocates from. The stream does not tell it: a pool of another device
// may serve any stream, and the memory of a pool may lie on the host (CUDA 12.6).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/control/control_state.h"

namespace culprit {

class PoolPlaces {
 public:
  static constexpr int kUnknown = -2;
  static constexpr int kNone = -1;  // on the host, or managed

  // The device of a pool whose place is known; kUnknown, kNone. Thread- and signal-safe, like all functions here.
  int of(CUmemoryPool pool) const {
    for (const std::atomic<std::uint64_t>& place : entries_[bucket_of(pool)]) {
      const std::uint64_t entry = place.load(std::memory_order_relaxed);
      if (entry >> kDeviceBits == reinterpret_cast<std::uint64_t>(pool))
        return static_cast<int>(entry & kMostDevice) + kUnknown;
    }
    return kUnknown;
  }
  void set(CUmemoryPool pool, int device);

 private:
  // A handle is an address in user space, and leaves the upper 16 bits free.
  static constexpr int kDeviceBits = 16;
  static constexpr std::uint64_t kMostDevice = (1U << kDeviceBits) - 1;
  static constexpr std::size_t kBuckets = 64;
  static constexpr int kPlaces = 4;

  static std::size_t bucket_of(CUmemoryPool pool) {
    return (quick_hash(reinterpret_cast<std::uint64_t>(pool)) >> 32) % kBuckets;
  }

  std::atomic<std::uint64_t> entries_[kBuckets][kPlaces];
  std::atomic<std::uint32_t> victim_;
};

// The process with the part of this room; no room that Process belongs to stands above it.
struct EventsState : ControlState {
  PoolPlaces pool_places;
};
inline PoolPlaces& pool_places_of(Process& process) { return static_cast<EventsState&>(process).pool_places; }

// A new pool. `device`: its device, negative = none.
void note_pool_device(CUmemoryPool pool, int device);

// Asks the driver where memory of the pool lies: `memory` was just allocated from it. Returns its device, kNone, or
// kUnknown.
int ask_pool_device(CUmemoryPool pool, CUdeviceptr memory);

}  // namespace culprit
