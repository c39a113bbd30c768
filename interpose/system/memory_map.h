// The mappings of this process, from /proc at one moment.
#pragma once

#include <cstdint>

#include "interpose/base/maps_line.h"

namespace culprit {

// Uses private memory, never malloc. Not thread-safe.
class MemoryMap {
 public:
  MemoryMap() = default;
  ~MemoryMap();
  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;

  // Reads the mappings again. Returns false without /proc or without memory.
  bool read();

  // The mapping of `address`, nullptr = none.
  const Mapping* find(std::uint64_t address) const;
  const Mapping* begin() const { return mappings_; }
  const Mapping* end() const { return mappings_ + count_; }

 private:
  static constexpr std::uint64_t kMost = 1 << 18;  // four times the kernel's default limit (vm.max_map_count)

  Mapping* mappings_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace culprit
