#include "tests/simcuda/driver/address_space.h"

#include <sys/mman.h>

namespace simcuda {

void* map_shared(std::size_t bytes, void* at) {
  // Shared, so that mremap can show the same pages at a second address (cuMemMap, IPC). MADV_DONTFORK, because device
  // memory is not there in a fork child either, and a child with a driver of its own must not write into its parent's
  // memory.
  int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED_NOREPLACE : 0);
  void* memory = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (at != nullptr && memory != at) {
    munmap(memory, bytes);
    return nullptr;
  }
  madvise(memory, bytes, MADV_DONTFORK);
  madvise(memory, bytes, MADV_DONTDUMP);
  return memory;
}

void unmap_shared(void* memory, std::size_t bytes) { munmap(memory, bytes); }

AddressSpace::AddressSpace(std::uint64_t base, std::size_t bytes, bool identity)
    : base_(base), bytes_(bytes), bins_(kSmall / kUnit + 1) {
  // Under an address space limit (ulimit -v) a smaller range must suffice.
  for (; host_ == nullptr && bytes_ >= kSmallest; bytes_ /= 2) {
    if (identity) host_ = static_cast<char*>(map_shared(bytes_, reinterpret_cast<void*>(base)));
    if (host_ == nullptr) host_ = static_cast<char*>(map_shared(bytes_));
    if (host_ != nullptr) break;
  }
  if (host_ == nullptr) bytes_ = 0;
  if (host_ != nullptr) mprotect(host_, bytes_, PROT_NONE);
  if (bytes_ != 0) add_range(base, bytes_);
}

std::uint64_t AddressSpace::allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes == 0 || bytes > bytes_) return 0;
  bytes = round_up(bytes, kUnit);
  if (bytes >= kSmall || alignment > kUnit) return allocate_range(bytes, alignment < kUnit ? kUnit : alignment);
  std::vector<std::uint64_t>& bin = bins_[bytes / kUnit];
  if (!bin.empty()) {
    std::uint64_t address = bin.back();
    bin.pop_back();
    return address;
  }
  if (slab_end_ - slab_ < bytes) {
    // The rest of the old slab goes into the bin of its size, so nothing is lost.
    if (slab_end_ != slab_) bins_[(slab_end_ - slab_) / kUnit].push_back(slab_);
    slab_ = allocate_range(kSlab, kSlab);
    slab_end_ = slab_ == 0 ? 0 : slab_ + kSlab;
    if (slab_ == 0) return 0;
  }
  std::uint64_t address = slab_;
  slab_ += bytes;
  return address;
}

bool AddressSpace::allocate_at(std::uint64_t address, std::size_t bytes) {
  bytes = round_up(bytes, kUnit);
  auto range = free_.upper_bound(address);
  if (range == free_.begin()) return false;
  --range;
  auto [begin, length] = *range;
  if (address < begin || address + bytes > begin + length) return false;
  remove_range(range);
  if (address > begin) add_range(begin, address - begin);
  if (address + bytes < begin + length) add_range(address + bytes, begin + length - address - bytes);
  make_accessible(address + bytes);
  return true;
}

void AddressSpace::make_accessible(std::uint64_t end) {
  if (end - base_ <= accessible_) return;
  std::size_t wanted = round_up(end - base_, kStep);
  if (wanted > bytes_) wanted = bytes_;
  mprotect(host_ + accessible_, wanted - accessible_, PROT_READ | PROT_WRITE);
  accessible_ = wanted;
}

void AddressSpace::free(std::uint64_t address, std::size_t bytes) {
  bytes = round_up(bytes, kUnit);
  // Small blocks stay in the free list of their size for ever; a block of that size that was allocated with an
  // alignment of its own joins them.
  if (bytes < kSmall) {
    bins_[bytes / kUnit].push_back(address);
    return;
  }
  constexpr std::uint64_t kPage = 4096;
  std::uint64_t first = round_up(address, kPage);
  std::uint64_t last = (address + bytes) / kPage * kPage;
  if (first < last) madvise(host(first), last - first, MADV_REMOVE);  // return the memory to the host
  add_range(address, bytes);
}

void AddressSpace::alias(std::uint64_t address, void* source, std::size_t bytes) {
  // A shared mapping "grown" from size 0 is a second view of the same pages. When the kernel cannot do it the two
  // addresses have different contents, which only a test that copies through both would notice.
  mremap(source, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, host(address));
}

void AddressSpace::unalias(std::uint64_t address, std::size_t bytes) {
  char* at = host(address);
  mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  madvise(at, bytes, MADV_DONTFORK);
  madvise(at, bytes, MADV_DONTDUMP);
}

std::uint64_t AddressSpace::allocate_range(std::size_t bytes, std::size_t alignment) {
  for (auto fit = free_by_size_.lower_bound({bytes, 0}); fit != free_by_size_.end(); ++fit) {
    auto [length, begin] = *fit;
    std::uint64_t address = base_ + round_up(begin - base_, alignment);
    if (address + bytes > begin + length) continue;
    remove_range(free_.find(begin));
    if (address > begin) add_range(begin, address - begin);
    if (address + bytes < begin + length) add_range(address + bytes, begin + length - address - bytes);
    make_accessible(address + bytes);
    return address;
  }
  return 0;
}

void AddressSpace::add_range(std::uint64_t address, std::size_t bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes) {
    bytes += next->second;
    auto merged = next++;
    remove_range(merged);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      address = previous->first;
      bytes += previous->second;
      remove_range(previous);
    }
  }
  free_.emplace(address, bytes);
  free_by_size_.emplace(bytes, address);
}

void AddressSpace::remove_range(std::map<std::uint64_t, std::size_t>::iterator range) {
  free_by_size_.erase({range->second, range->first});
  free_.erase(range);
}

}  // namespace simcuda
