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

  // Memory that was mapped while the list was read only. It is part of the list, alone or within another mapping.
  std::uint64_t text_begin() const { return text_begin_; }
  std::uint64_t text_end() const { return text_begin_ + kText; }

 private:
  static constexpr std::uint64_t kMost = 1 << 18;  // four times the kernel's default limit (vm.max_map_count)

  static constexpr std::uint64_t kText = 64 << 20;

  std::uint64_t text_begin_ = 0;
  Mapping* mappings_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace culprit
