// A range of simulated addresses (a device's memory, or managed memory) and the host memory behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace simcuda {

// Allocates addresses lowest first, so that they are the same in every run. The host memory behind them is one lazily
// populated mapping: 1 GiB that is never written costs nothing. Not thread-safe: callers hold the driver's lock.
class AddressSpace {
 public:
  // Simulated addresses begin at `base`. With `identity` the host memory is at that very address if it is free, so that
  // a simulated address is also a host address; otherwise the kernel chooses the address.
  AddressSpace(std::uint64_t base, std::size_t bytes, bool identity);
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // False when the kernel provided no memory; then every allocation fails.
  bool usable() const { return host_ != nullptr; }
  // Returns the address, or 0 when there is no room.
  std::uint64_t allocate(std::size_t bytes, std::size_t alignment);
  // Takes exactly this range if it is free.
  bool allocate_at(std::uint64_t address, std::size_t bytes);
  // `bytes` as given to allocate.
  void free(std::uint64_t address, std::size_t bytes);

  bool contains(std::uint64_t address) const { return address - base_ < bytes_; }
  char* host(std::uint64_t address) const { return host_ + (address - base_); }

  // Maps the memory at `source` (host memory from map_shared or from an address space) at `address` as well. Whole
  // pages only.
  void alias(std::uint64_t address, void* source, std::size_t bytes);
  // Maps fresh zeroed memory at `address` again.
  void unalias(std::uint64_t address, std::size_t bytes);

 private:
  static constexpr std::size_t kUnit = 512;                    // the real driver's alignment of cuMemAlloc
  static constexpr std::size_t kSmall = std::size_t{1} << 20;  // below: a free list for each size
  static constexpr std::size_t kSmallest = std::size_t{1} << 28;
  static constexpr std::size_t kSlab = std::size_t{2} << 20;
  static constexpr std::size_t kStep = std::size_t{64} << 20;

  std::uint64_t allocate_range(std::size_t bytes, std::size_t alignment);
  void add_range(std::uint64_t address, std::size_t bytes);
  void remove_range(std::map<std::uint64_t, std::size_t>::iterator range);

  // Addresses that were never allocated have no access, like those that the real driver reserves.
  void make_accessible(std::uint64_t end);

  std::uint64_t base_;
  std::size_t bytes_;
  std::size_t accessible_ = 0;  // the first bytes
  char* host_ = nullptr;
  std::vector<std::vector<std::uint64_t>> bins_;
  std::uint64_t slab_ = 0;
  std::uint64_t slab_end_ = 0;
  std::map<std::uint64_t, std::size_t> free_;                     // by address
  std::set<std::pair<std::size_t, std::uint64_t>> free_by_size_;  // the same ranges, best fit first
};

// Lazily populated shared memory that a fork child does not inherit. Returns nullptr when the kernel refuses.
void* map_shared(std::size_t bytes, void* at = nullptr);
void unmap_shared(void* memory, std::size_t bytes);

constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace simcuda
