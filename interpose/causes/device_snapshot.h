// The content of all memory of the GPU at one moment, pinned memory and the variables of device code included, for a
// search in a copy of the process, which cannot call the driver. Of more than 64 MiB, or of many blocks, only
// the pointers are kept (device_pointers.h), where a kernel can find them.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/device_pointers.h"
#include "interpose/causes/device_variables.h"
#include "interpose/causes/gpu_blocks.h"

namespace culprit {

class DeviceCopies;
class MemoryMap;
struct Process;

class DeviceSnapshot {
 public:
  // More is not copied: all threads of the program are stopped meanwhile.
  static constexpr std::uint64_t kMostBytes = 64 << 20;

  // Whether to copy so many blocks takes longer than to look for their pointers on the device, which takes 5 ms. A copy
  // takes 8 us (H200), however small it is.
  static bool takes_long(std::uint64_t blocks, std::uint64_t bytes) { return bytes > kMostBytes || blocks > 512; }

  // Copies the blocks and the variables until the deadline. If it cannot copy all of them, nothing is there. On the
  // tracker's own stack, inside a Recording. `map`: of the process. What `pointers` then knows is not copied.
  void take(Process& process, const GpuBlocks& blocks, DeviceVariables* variables, const MemoryMap& map,
            DevicePointers* pointers, std::uint64_t deadline_ns);
  void close();

  // The content of a block; nullptr: it was not copied.
  const unsigned char* content_of(std::uint32_t number) const { return taken_ ? content_ + offsets_[number] : nullptr; }
  // The content of the variables, one after the other; nullptr: it was not copied.
  const unsigned char* content_of_variables() const { return taken_ ? content_ + variables_ : nullptr; }

 private:
  bool make_room(const GpuBlocks& blocks, const DeviceVariables& variables);
  bool copy_blocks(const GpuBlocks& blocks, DeviceCopies* copies);
  bool copy_variables(const DeviceVariables& variables, DeviceCopies* copies);

  const DevicePointers* pointers_ = nullptr;
  std::uint64_t* offsets_ = nullptr;
  std::uint64_t offset_bytes_ = 0;
  std::uint64_t variables_ = 0;  // their offset
  unsigned char* content_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool in_use_ = false;  // the driver may still write to it
  bool taken_ = false;
};

}  // namespace culprit
