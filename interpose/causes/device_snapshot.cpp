#include "interpose/causes/device_snapshot.h"

#include <algorithm>

#include "interpose/causes/device_copies.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/system/own_memory.h"

namespace culprit {

void DeviceSnapshot::take(Process& process, const GpuBlocks& blocks, DeviceVariables* variables, const MemoryMap& map,
                          DevicePointers* pointers, std::uint64_t deadline_ns) {
  pointers_ = pointers;
  const DriverUse use;
  DeviceCopies copies(process, DeviceCopies::When::kInRunningProgram, deadline_ns);
  if (!copies.all_idle() || !variables->find()) return;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) bytes += blocks[i].end - blocks[i].begin;
  if (takes_long(blocks.size(), bytes)) pointers->take(process, blocks, map, false, deadline_ns);
  if (!make_room(blocks, *variables)) return;
  taken_ = copy_blocks(blocks, &copies) && copy_variables(*variables, &copies);
  in_use_ = copies.is_stuck();
}

bool DeviceSnapshot::make_room(const GpuBlocks& blocks, const DeviceVariables& variables) {
  int error = 0;
  offset_bytes_ = std::max<std::uint64_t>(blocks.size(), 1) * sizeof(std::uint64_t);
  offsets_ = static_cast<std::uint64_t*>(map_private(offset_bytes_, &error));
  if (offsets_ == nullptr) return false;
  bytes_ = 0;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    offsets_[i] = bytes_;
    if (pointers_->knows(i)) continue;
    bytes_ += blocks[i].end - blocks[i].begin;
    if (bytes_ > kMostBytes) return false;
  }
  variables_ = bytes_;
  for (std::uint32_t i = 0; i < variables.size(); ++i) bytes_ += variables[i].bytes;
  if (bytes_ > kMostBytes) return false;
  bytes_ = std::max<std::uint64_t>(bytes_, 1);
  content_ = static_cast<unsigned char*>(map_private(bytes_, &error));
  return content_ != nullptr;
}

bool DeviceSnapshot::copy_blocks(const GpuBlocks& blocks, DeviceCopies* copies) {
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    const std::uint64_t bytes = pointers_->knows(i) ? 0 : blocks[i].end - blocks[i].begin;
    for (std::uint64_t done = 0; done < bytes; done += DeviceCopies::kMostBytes) {
      const std::uint64_t part = std::min(bytes - done, DeviceCopies::kMostBytes);
      if (!copies->read(blocks[i], done, part, content_ + offsets_[i] + done)) return false;
    }
  }
  return true;
}

bool DeviceSnapshot::copy_variables(const DeviceVariables& variables, DeviceCopies* copies) {
  unsigned char* to = content_ + variables_;
  for (std::uint32_t i = 0; i < variables.size(); ++i) {
    if (!copies->read(variables[i].context, variables[i].begin, variables[i].bytes, to)) return false;
    to += variables[i].bytes;
  }
  return true;
}

void DeviceSnapshot::close() {
  if (offsets_ != nullptr) unmap_private(offsets_, offset_bytes_);
  if (content_ != nullptr && !in_use_) unmap_private(content_, bytes_);
  offsets_ = nullptr;
  content_ = nullptr;
  taken_ = false;
}

}  // namespace culprit
