#include "interpose/causes/driver_records.h"

#include <sys/mman.h>

#include <algorithm>

#include "interpose/causes/driver_threads.h"
#include "interpose/driver/driver.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

// On an H200 with driver 580 a record has 568 bytes. In it are the size, two words, the size again, the address twice,
// an offset and the identity; and the record's own address.
constexpr std::uint64_t kLeastOfAllocation = 256;
constexpr std::uint64_t kLeastBytes = 128;  // of any record
constexpr std::uint64_t kMostBytes = 1024;
constexpr std::uint64_t kFirstSize = 4;   // words before the first address
constexpr std::uint64_t kToIdentity = 3;  // words behind it

bool has_identity(const GpuBlocks& blocks, std::uint64_t address, std::uint64_t identity) {
  bool found = false;
  blocks.find(address, [&](std::uint32_t number) {
    found = found || (blocks[number].begin == address && blocks[number].identity == identity);
  });
  return found;
}

// Whether memory of a device is mapped there.
bool is_of_device(std::uint64_t address, const MemoryMap& map) {
  const Mapping* mapping = map.find(address);
  return mapping == nullptr || (mapping->protection & PROT_READ) == 0;
}

// Of memory that the driver made for itself: on a device, and none that it has told anyone of.
bool has_form(const std::uint64_t* words, std::uint64_t count, std::uint64_t first, std::uint64_t begin,
              const MemoryMap& map) {
  if (first < kFirstSize || words[first - 1] == 0 || words[first - 1] != words[first - kFirstSize] ||
      words[first + kToIdentity] >> 32 != 0 || std::find(words, words + count, begin) == words + count)
    return false;
  return is_of_device(words[first], map);
}

bool is_in_driver(std::uint64_t address) {
  struct dl_phdr_info module;
  return find_module(address, &module) && is_driver_library(module.dlpi_name);
}

// A node of 136 bytes for a range of device memory: two numbers, six empty words, and the links of two trees, each with
// two functions of the driver.
bool is_in_two_trees(const std::uint64_t* words, std::uint64_t count) {
  constexpr std::uint64_t kFirstTree = 10;
  constexpr std::uint64_t kSecondTree = 13;
  constexpr std::uint64_t kMostNumber = 1 << 16;
  if (count <= kSecondTree + 1 || words[2] > kMostNumber || words[3] > kMostNumber) return false;
  if (std::any_of(words + 4, words + kFirstTree, [](std::uint64_t word) { return word != 0; })) return false;
  return words[kFirstTree] == words[kSecondTree] && is_in_driver(words[kFirstTree]) &&
         is_in_driver(words[kFirstTree + 1]) && is_in_driver(words[kSecondTree + 1]);
}

// A range of device memory, used or not, has a node: its first address and its size, then the links of trees and lists.
// One of 152 bytes has three that lead to the node itself. With two GPUs the stale words lead to these.
bool is_range(const std::uint64_t* words, std::uint64_t count, std::uint64_t begin, const GpuBlocks& blocks,
              const MemoryMap& map) {
  constexpr std::uint64_t kMostWords = 24;
  if (count > kMostWords || words[0] == 0 || words[1] == 0 || words[1] >> 48 != 0) return false;
  bool is_known = is_of_device(words[0], map);
  blocks.find(words[0], [&](std::uint32_t) { is_known = true; });
  return is_known && ((words[4] == begin && words[5] == begin && words[10] == begin) || is_in_two_trees(words, count));
}

// An allocation of a pool has 344 bytes: its size twice, its address, and the record's own address.
bool is_of_pool(const std::uint64_t* words, std::uint64_t count, std::uint64_t begin, const GpuBlocks& blocks) {
  constexpr std::uint64_t kLeastWords = 42;
  constexpr std::uint64_t kMostWords = 48;
  if (count < kLeastWords || count > kMostWords || words[7] != words[8] || words[41] != begin) return false;
  bool found = false;
  blocks.find(words[31], [&](std::uint32_t number) {
    found = found || (blocks[number].begin == words[31] && blocks[number].end - blocks[number].begin == words[7]);
  });
  return found;
}

// Device memory that the driver divides among allocations, of whole pages of 2 MiB, has 792 bytes: its address twice or
// more, its size, and how many pages of 4 KiB each of its pages is.
bool is_segment(const std::uint64_t* words, std::uint64_t count) {
  constexpr std::uint64_t kLeastWords = 96;
  constexpr std::uint64_t kMostWords = 104;
  constexpr std::uint64_t kAddress = 15;
  constexpr std::uint64_t kSize = 20;
  constexpr std::uint64_t kPage = 2 << 20;
  if (count < kLeastWords || count > kMostWords) return false;
  const std::uint64_t address = words[kAddress];
  return address != 0 && address % kPage == 0 && words[kAddress + 3] == address && words[kSize] != 0 &&
         words[kSize] % kPage == 0 && words[kSize + 1] == kPage / 4096;
}

}  // namespace

void ask_identities(GpuBlocks* blocks) {
  for (std::uint32_t i = 0; i < std::min(blocks->size(), kMostAsked); ++i) {
    GpuBlock& block = (*blocks)[i];
    unsigned long long identity = 0;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void* value = &identity;
    if (driver().cuPointerGetAttributes(1, &attribute, &value, block.begin) != CUDA_SUCCESS) return;
    block.identity = identity;
  }
}

bool is_driver_record(std::uint64_t begin, std::uint64_t end, const GpuBlocks& blocks, const MemoryMap& map) {
  if (end - begin < kLeastBytes || end - begin > kMostBytes) return false;
  std::uint64_t words[kMostBytes / sizeof(std::uint64_t)];
  const std::uint64_t count = (end - begin) / sizeof(words[0]);
  const auto bytes = static_cast<std::int64_t>(count * sizeof(words[0]));
  if (os.read_own_memory(words, begin, bytes) != bytes) return false;
  if (is_range(words, count, begin, blocks, map) || is_segment(words, count) || is_of_pool(words, count, begin, blocks))
    return true;
  if (end - begin < kLeastOfAllocation) return false;
  for (std::uint64_t i = 0; i + kToIdentity < count; ++i) {
    const std::uint64_t identity = words[i + kToIdentity];
    if (words[i] == 0 || words[i] != words[i + 1] || identity == 0) continue;
    if (has_identity(blocks, words[i], identity) || has_form(words, count, i, begin, map)) return true;
  }
  return false;
}

}  // namespace culprit
