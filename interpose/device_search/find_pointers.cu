// The kernel that looks for pointers in the memory of a device: see find_pointers.h. It ends by itself when its time is
// over.
#include "interpose/device_search/find_pointers.h"

namespace {

struct DeviceMemory {
  __device__ static void load(std::uint64_t address, std::uint32_t lane, std::uint64_t (*words)[3]) {
    constexpr std::uint32_t kLast = culprit::kWarp - 1;
    const auto* place = reinterpret_cast<const ulonglong2*>(address) + lane;
    unsigned long long behind = 0;
    if (lane == kLast) behind = load8(address + culprit::kWarpBytes);
#pragma unroll
    for (std::uint32_t i = 0; i < culprit::kAhead; ++i) {
      const ulonglong2 both = __ldcs(place + i * culprit::kWarp);
      words[i][0] = both.x;
      words[i][1] = both.y;
    }
    // The word behind comes from the next thread; for the last one from the first one's next load.
#pragma unroll
    for (std::uint32_t i = 0; i < culprit::kAhead; ++i) {
      const bool last = i + 1 == culprit::kAhead;
      const unsigned long long mine = lane == 0 && !last ? words[last ? i : i + 1][0] : words[i][0];
      words[i][2] = __shfl_sync(~0U, mine, (lane + 1) % culprit::kWarp);
      if (last && lane == kLast) words[i][2] = behind;
    }
  }
  __device__ static std::uint64_t load8(std::uint64_t address) {
    return __ldcg(reinterpret_cast<const unsigned long long*>(address));
  }
  __device__ static std::uint64_t compare_exchange(std::uint64_t* place, std::uint64_t expected, std::uint64_t wanted) {
    return atomicCAS(reinterpret_cast<unsigned long long*>(place), expected, wanted);
  }
  __device__ static std::uint64_t add(std::uint64_t* place, std::uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(place), value);
  }
};

// The next piece; ~0: the time is over.
__device__ std::uint64_t next_piece(const culprit::SearchOrder& order) {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  const std::uint64_t begin = DeviceMemory::compare_exchange(&order.counters->begin_ns, 0, now);
  if (begin == 0 || now <= begin || now - begin <= order.longest_ns) return DeviceMemory::add(&order.counters->next, 1);
  order.counters->expired = 1;
  return ~std::uint64_t{0};
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256, 4) culprit_find_pointers(culprit::SearchOrder order) {
  __shared__ std::uint64_t piece;
  culprit::PointerFinder<DeviceMemory> finder(order);
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) piece = next_piece(order);
    __syncthreads();
    if (piece >= order.pieces) return;
    finder.look_at(piece, threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) DeviceMemory::add(&order.counters->done, 1);
  }
}
