// The pointers in memory of devices that is too large to be copied, as a kernel found them (device_search/): which
// block refers to which, and to which places in memory of the process where malloc's chunks may be.
//
// Only memory that a kernel can surely read: device and pinned memory in its own context, or of a pool of its device.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>

#include "interpose/causes/gpu_blocks.h"
#include "interpose/device_search/find_pointers.h"

namespace culprit {

class MemoryMap;
struct Process;

class DevicePointers {
 public:
  // Looks through all blocks that a kernel can read, until the deadline; where that fails, none is known. `map`: of the
  // process. While a DriverUse exists and all streams are idle; on the tracker's own stack.
  void take(Process& process, const GpuBlocks& blocks, const MemoryMap& map, bool at_exit, std::uint64_t deadline_ns);
  void close();

  // Whether all pointers in this block are known.
  bool knows(std::uint32_t number) const { return known_ != nullptr && known_[number] != 0; }

  // Calls to_block(number) and to_process(address, only if it is a begin) for each pointer in a block.
  template <typename ToBlock, typename ToProcess>
  void for_each_in(std::uint32_t number, ToBlock to_block, ToProcess to_process) const {
    const std::uint64_t* const begin = entries_;
    const std::uint64_t* const end = begin + entry_count_;
    const std::uint64_t* entry = std::lower_bound(
        begin, end, number, [](std::uint64_t one, std::uint32_t wanted) { return number_of(one) < wanted; });
    for (; entry != end && number_of(*entry) == number; ++entry) {
      if ((*entry & kToTarget) != 0) {
        to_block(static_cast<std::uint32_t>(*entry & (kMostNumbers - 1)));
      } else {
        to_process(address_of(*entry & (kMostPlaces - 1)), (*entry & kToBegin) != 0);
      }
    }
  }

 private:
  static std::uint32_t number_of(std::uint64_t entry) {
    return static_cast<std::uint32_t>((entry & ~kToTarget) >> kNumberShift);
  }
  std::uint64_t address_of(std::uint64_t place) const;
  bool make_lists(const GpuBlocks& blocks, const MemoryMap& map);
  bool add_host_ranges(const MemoryMap& map);
  bool search(Process& process, const GpuBlocks& blocks, bool at_exit, std::uint64_t deadline_ns);
  bool search_in(CUcontext context, std::uint32_t index, std::uint8_t device, const GpuBlocks& blocks, bool at_exit,
                 std::uint64_t deadline_ns);

  static constexpr std::uint32_t kMostHosts = 1 << 16;
  static constexpr std::uint64_t kMostEntries = kMostFound;  // of all contexts

  std::uint32_t blocks_ = 0;
  std::uint8_t* known_ = nullptr;
  TargetRange* targets_ = nullptr;
  SearchedMemory* memory_ = nullptr;
  HostRange* hosts_ = nullptr;
  std::uint32_t host_count_ = 0;
  std::uint64_t* entries_ = nullptr;  // by number
  std::uint64_t entry_count_ = 0;
};

}  // namespace culprit
