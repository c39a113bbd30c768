#include "interpose/causes/gpu_blocks.h"

#include <algorithm>

#include "interpose/format/kinds.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

using format::AllocationRecord;
using format::AllocationState;
using format::Kind;
using format::state_of;

bool is_addressed(Kind kind) {
  return kind == Kind::kDevice || kind == Kind::kPitched || kind == Kind::kManaged || kind == Kind::kPinnedHost ||
         kind == Kind::kStreamOrdered;
}

// Whether the driver keeps no pointer of the program for such a thing. A graph has parameters of kernels, a texture
// the memory that it reads, a user object the argument of its destructor; VMM memory, arrays and imported memory are
// not read. Registered memory is the program's own, and is read as such; a region is read with the memory around it.
bool is_harmless(Kind kind) {
  return kind == Kind::kRegisteredHost || kind == Kind::kMemoryPool || kind == Kind::kContext ||
         kind == Kind::kPrimaryContext || kind == Kind::kStream || kind == Kind::kEvent || kind == Kind::kModule ||
         kind == Kind::kLibrary || kind == Kind::kRegion || kind == Kind::kHeap;
}

template <typename Visit>
void for_each_live(Process& process, Visit visit) {
  process.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    const std::uint32_t state = __atomic_load_n(&record.state, __ATOMIC_ACQUIRE);
    if (state_of(state) != AllocationState::kEmpty) visit(record, state);
  });
}

}  // namespace

GpuBlocks::Collected GpuBlocks::collect(Process& process) {
  std::uint32_t count = 0;
  bool others = false;
  for_each_live(process, [&](const AllocationRecord& record, std::uint32_t state) {
    if (is_addressed(record.kind)) {
      ++count;
      others = others || state_of(state) != AllocationState::kLive;
    } else {
      others = others || !is_harmless(record.kind);
    }
  });
  if (count == 0) return Collected::kDone;
  if (others) return Collected::kOthers;
  int error = 0;
  bytes_ = count * sizeof(GpuBlock);
  list_ = static_cast<GpuBlock*>(map_private(bytes_, &error));
  if (list_ == nullptr) return Collected::kNoMemory;
  const auto* base = reinterpret_cast<const unsigned char*>(process.dump.header());
  std::uint64_t most = 0;
  for_each_live(process, [&](const AllocationRecord& record, std::uint32_t state) {
    if (!is_addressed(record.kind) || count_ == count) return;
    const auto offset = static_cast<std::uint64_t>(reinterpret_cast<const unsigned char*>(&record) - base);
    const std::uint64_t end = record.handle + std::max<std::uint64_t>(record.bytes, 1);
    list_[count_++] = {record.handle,
                       end,
                       static_cast<format::Ref>(offset / format::kRefUnit),
                       state,
                       record.context,
                       record.device,
                       record.kind,
                       0,
                       false,
                       0};
    most = std::max(most, end);
  });
  std::sort(list_, list_ + count_, [](const GpuBlock& one, const GpuBlock& other) { return one.begin < other.begin; });
  for (std::uint32_t i = 1; i < count_; ++i) list_[i - 1].next_at_end = list_[i].begin == list_[i - 1].end;
  span_ = most + kBefore - list_[0].begin;
  return Collected::kDone;
}

void GpuBlocks::close() {
  if (list_ != nullptr) unmap_private(list_, bytes_);
  list_ = nullptr;
}

}  // namespace culprit
