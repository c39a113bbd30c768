// The counts of PyTorch's caching allocator, in the form of libc10_cuda.so: an exported pointer to the allocator, which
// has a list of one object for each device. With a POOL_COUNTS_GAP that is not empty a member lies in their middle, as
// in PyTorch 2.13.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace c10 {

struct CUDAAllocator {
  virtual ~CUDAAllocator() = default;
};

namespace {

struct Stat {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;

  void change(std::int64_t by) {
    current += by;
    (by > 0 ? allocated : freed) += by > 0 ? by : -by;
    if (current > peak) peak = current;
  }
};
using StatArray = std::array<Stat, 3>;  // all, small, large

void change(StatArray& stat, std::int64_t by) {
  stat[0].change(by);
  stat[2].change(by);
}

struct Counts {
  StatArray allocation, segment, active, inactive_split, allocated_bytes, reserved_bytes;
};
struct LaterCounts {
  StatArray active_bytes, inactive_split_bytes, requested_bytes;
};

struct DeviceAllocator {
  mutable std::recursive_mutex mutex;
  Counts counts;
  LaterCounts later;
  std::array<char, 1024> more = {};
};
struct DeviceAllocatorWithPools {
  int device = 0;
  mutable std::recursive_mutex mutex;
  Counts counts;
  struct {
    void* entries;
    std::size_t slots;
    std::int8_t policy, lookups;
    float load;
    std::size_t elements;
  } reserved_by_pools = {&entry, 0, 63, 0, 0.5F, 0};
  LaterCounts later;
  std::array<char, 1024> more = {};

  static inline char entry;
};

template <typename Device>
struct NativeAllocator : CUDAAllocator {
  std::array<std::mutex, 67> mutexes;
  std::vector<int> unrelated = {1, 2, 3};
  std::vector<std::unique_ptr<Device>> devices;
};

}  // namespace

namespace cuda::CUDACachingAllocator {
__attribute__((visibility("default"))) std::atomic<CUDAAllocator*> allocator;
}

namespace {

template <typename Device>
void count(NativeAllocator<Device>& native, std::int64_t segment, std::int64_t bytes) {
  if (native.devices.empty()) {
    for (int i = 0; i < 2; ++i) native.devices.push_back(std::make_unique<Device>());
    cuda::CUDACachingAllocator::allocator = &native;
  }
  Device& device = *native.devices[0];
  const std::lock_guard<std::recursive_mutex> lock(device.mutex);
  if (segment != 0) {
    change(device.counts.segment, segment > 0 ? 1 : -1);
    change(device.counts.reserved_bytes, segment);
  }
  if (bytes == 0) return;
  change(device.counts.active, bytes > 0 ? 1 : -1);
  change(device.later.active_bytes, bytes);
  change(device.counts.allocation, bytes > 0 ? 1 : -1);
  change(device.counts.allocated_bytes, bytes);
  change(device.later.requested_bytes, bytes > 0 ? bytes - 1 : bytes + 1);
}

NativeAllocator<DeviceAllocator> plain;
NativeAllocator<DeviceAllocatorWithPools> with_pools;

}  // namespace
}  // namespace c10

// Bytes that a segment and a tensor take; below 0: that they give back.
extern "C" __attribute__((visibility("default"))) void count_bytes(std::int64_t segment, std::int64_t tensor) {
  static const char* const text = getenv("POOL_COUNTS_GAP");
  static const bool gap = text != nullptr && *text != '\0';
  if (gap) {
    count(c10::with_pools, segment, tensor);
  } else {
    count(c10::plain, segment, tensor);
  }
}
