#include "interpose/causes/device_snapshot.h"

#include <algorithm>

#include "interpose/causes/device_copies.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/system/own_memory.h"

namespace culprit {

void DeviceSnapshot::take(Process& process, const GpuBlocks& blocks, std::uint64_t deadline_ns) {
  int error = 0;
  offset_bytes_ = std::max<std::uint64_t>(blocks.size(), 1) * sizeof(std::uint64_t);
  offsets_ = static_cast<std::uint64_t*>(map_private(offset_bytes_, &error));
  if (offsets_ == nullptr) return;
  bytes_ = 0;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    offsets_[i] = bytes_;
    bytes_ += blocks[i].end - blocks[i].begin;
    if (bytes_ > kMostBytes) return;
  }
  if (bytes_ == 0) {
    taken_ = true;
    return;
  }
  content_ = static_cast<unsigned char*>(map_private(bytes_, &error));
  taken_ = content_ != nullptr && copy_all(process, blocks, deadline_ns);
}

bool DeviceSnapshot::copy_all(Process& process, const GpuBlocks& blocks, std::uint64_t deadline_ns) {
  const DriverUse use;
  DeviceCopies copies(process, deadline_ns);
  if (!copies.all_idle()) return false;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    const std::uint64_t bytes = blocks[i].end - blocks[i].begin;
    for (std::uint64_t done = 0; done < bytes; done += DeviceCopies::kMostBytes) {
      const std::uint64_t part = std::min(bytes - done, DeviceCopies::kMostBytes);
      if (copies.read(blocks[i], done, part, content_ + offsets_[i] + done)) continue;
      in_use_ = copies.is_stuck();
      return false;
    }
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
