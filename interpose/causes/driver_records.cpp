#include "interpose/causes/driver_records.h"

#include <sys/mman.h>

#include <algorithm>

#include "interpose/driver/driver.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

// On an H200 with driver 580 a record has 568 bytes. In it are the size, two words, the size again, the address twice,
// an offset and the identity; and the record's own address.
constexpr std::uint64_t kLeastBytes = 256;
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

// Of memory that the driver made for itself: on a device, and none that it has told anyone of.
bool has_form(const std::uint64_t* words, std::uint64_t count, std::uint64_t first, std::uint64_t begin,
              const MemoryMap& map) {
  if (first < kFirstSize || words[first - 1] == 0 || words[first - 1] != words[first - kFirstSize] ||
      words[first + kToIdentity] >> 32 != 0 || std::find(words, words + count, begin) == words + count)
    return false;
  const Mapping* mapping = map.find(words[first]);
  return mapping == nullptr || (mapping->protection & PROT_READ) == 0;
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
  for (std::uint64_t i = 0; i + kToIdentity < count; ++i) {
    const std::uint64_t identity = words[i + kToIdentity];
    if (words[i] == 0 || words[i] != words[i + 1] || identity == 0) continue;
    if (has_identity(blocks, words[i], identity) || has_form(words, count, i, begin, map)) return true;
  }
  return false;
}

}  // namespace culprit
