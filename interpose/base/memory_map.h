// What is mapped in this process, as /proc/self/maps says at one moment.
#pragma once

#include <cstdint>

namespace culprit {

struct Mapping {
  std::uint64_t begin;
  std::uint64_t end;
  int protection;  // PROT_READ | PROT_WRITE | PROT_EXEC
  bool shared;
  bool device;  // of a file in /dev
};

// In memory of its own, never malloc's. Not thread-safe.
class MemoryMap {
 public:
  MemoryMap() = default;
  ~MemoryMap();
  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;

  // Reads anew. False when /proc is not there or there is no memory.
  bool read();

  // The mapping that `address` lies in, nullptr = none.
  const Mapping* find(std::uint64_t address) const;
  const Mapping* begin() const { return mappings_; }
  const Mapping* end() const { return mappings_ + count_; }

 private:
  static constexpr std::uint64_t kMost = 1 << 18;  // the kernel's own limit is a quarter of it (vm.max_map_count)

  Mapping* mappings_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace culprit
