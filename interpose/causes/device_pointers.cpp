#include "interpose/causes/device_pointers.h"

#include "interpose/device_search/pointer_search.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

using format::ContextRecord;
using format::Kind;

static_assert(kBytesBeforeTarget == GpuBlocks::kBefore);
constexpr std::uint64_t kVector = 16;

// Pinned memory is in the address space of each context (unified addressing, CUDA Driver API, section 6.14).
bool may_be_read(const GpuBlock& block, std::uint32_t context, std::uint8_t device) {
  if (block.context != context || block.begin % kVector != 0) return false;
  if (block.kind == Kind::kPinnedHost) return true;
  return block.device == device &&
         (block.kind == Kind::kDevice || block.kind == Kind::kPitched || block.kind == Kind::kStreamOrdered);
}

// Pinned memory is read over the bus: 46 GB/s on an H200. Where it cannot be done in time nothing is begun.
bool is_too_much(const GpuBlocks& blocks, std::uint64_t deadline_ns) {
  constexpr std::uint64_t kBytesInNs = 40;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < blocks.size(); ++i)
    bytes += blocks[i].kind == Kind::kPinnedHost ? blocks[i].end - blocks[i].begin : 0;
  return clock_ns(CLOCK_MONOTONIC) + bytes / kBytesInNs > deadline_ns;
}

// Whether chunks of malloc may lie there.
bool is_of_malloc(const Mapping& mapping) {
  constexpr int kWritable = PROT_READ | PROT_WRITE;
  return !mapping.shared && !mapping.file && !mapping.nvidia && !mapping.kernel && !mapping.main_stack &&
         (mapping.protection & kWritable) == kWritable;
}

}  // namespace

void DevicePointers::take(Process& process, const GpuBlocks& blocks, const MemoryMap& map, bool at_exit,
                          std::uint64_t deadline_ns) {
  if (!PointerSearch::is_there() || blocks.size() > kMostNumbers || is_too_much(blocks, deadline_ns)) return;
  if (!make_lists(blocks, map) || !search(process, blocks, at_exit, deadline_ns)) {
    close();
    return;
  }
  std::sort(entries_, entries_ + entry_count_,
            [](std::uint64_t one, std::uint64_t other) { return number_of(one) < number_of(other); });
}

bool DevicePointers::make_lists(const GpuBlocks& blocks, const MemoryMap& map) {
  blocks_ = blocks.size();
  known_ = map_items<std::uint8_t>(blocks_);
  targets_ = map_items<TargetRange>(blocks_);
  memory_ = map_items<SearchedMemory>(blocks_);
  hosts_ = map_items<HostRange>(kMostHosts);
  entries_ = map_items<std::uint64_t>(kMostEntries);
  if (known_ == nullptr || targets_ == nullptr || memory_ == nullptr || hosts_ == nullptr || entries_ == nullptr)
    return false;
  for (std::uint32_t i = 0; i < blocks_; ++i) targets_[i] = {blocks[i].begin, blocks[i].last_address()};
  return add_host_ranges(map);
}

bool DevicePointers::add_host_ranges(const MemoryMap& map) {
  std::uint64_t place = 1;
  for (const Mapping& mapping : map) {
    if (!is_of_malloc(mapping)) continue;
    if (host_count_ == kMostHosts || mapping.end - mapping.begin > kMostPlaces - place) return false;
    hosts_[host_count_++] = {mapping.begin, mapping.end, place};
    place += mapping.end - mapping.begin + 1;
  }
  return true;
}

std::uint64_t DevicePointers::address_of(std::uint64_t place) const {
  const HostRange* behind =
      std::upper_bound(hosts_, hosts_ + host_count_, place,
                       [](std::uint64_t wanted, const HostRange& one) { return wanted < one.first; });
  return behind[-1].begin + (place - behind[-1].first);
}

bool DevicePointers::search(Process& process, const GpuBlocks& blocks, bool at_exit, std::uint64_t deadline_ns) {
  bool done = true;
  std::uint32_t index = 0;
  process.dump.for_each_record<ContextRecord>(format::ChunkType::kContexts, [&](const ContextRecord& record) {
    if (done && record.state == format::ContextState::kAlive)
      done = search_in(reinterpret_cast<CUcontext>(record.handle), index, record.device, blocks, at_exit, deadline_ns);
    ++index;
  });
  return done;
}

bool DevicePointers::search_in(CUcontext context, std::uint32_t index, std::uint8_t device, const GpuBlocks& blocks,
                               bool at_exit, std::uint64_t deadline_ns) {
  std::uint32_t count = 0;
  std::uint64_t pieces = 0;
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    if (!may_be_read(blocks[i], index, device)) continue;
    const std::uint64_t bytes = blocks[i].end - blocks[i].begin;
    memory_[count++] = {blocks[i].begin, bytes, pieces, i, bytes <= kMostBytesOfAnyTag};
    pieces += pieces_of(bytes);
  }
  if (count == 0) return true;
  PointerSearch search;
  const bool done =
      search.run(context, {memory_, count, targets_, blocks_, hosts_, host_count_}, at_exit, deadline_ns) &&
      kMostEntries - entry_count_ >= static_cast<std::uint64_t>(search.end() - search.begin());
  if (done) {
    for (const std::uint64_t entry : search) {
      const std::uint64_t number = memory_[number_of(entry)].number;
      constexpr std::uint64_t kNumbers = std::uint64_t{kMostNumbers - 1} << kNumberShift;
      entries_[entry_count_++] = (entry & ~kNumbers) | number << kNumberShift;
    }
    for (std::uint32_t i = 0; i < count; ++i) known_[memory_[i].number] = 1;
  }
  search.close();
  return done;
}

void DevicePointers::close() {
  unmap_items(known_, blocks_);
  unmap_items(targets_, blocks_);
  unmap_items(memory_, blocks_);
  unmap_items(hosts_, kMostHosts);
  unmap_items(entries_, kMostEntries);
  known_ = nullptr;
  targets_ = nullptr;
  memory_ = nullptr;
  hosts_ = nullptr;
  entries_ = nullptr;
  host_count_ = 0;
  entry_count_ = 0;
}

}  // namespace culprit
