#include "interpose/causes/memory_pieces.h"

#include <algorithm>

#include "interpose/format/array_layout.h"
#include "interpose/format/kinds.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// The handles of these kinds are addresses, and their bytes follow. A region of an array has a place beyond them.
bool is_addressed(const format::AllocationRecord& record) {
  using format::Kind;
  const Kind kind = record.kind;
  return kind == Kind::kDevice || kind == Kind::kPitched || kind == Kind::kManaged || kind == Kind::kPinnedHost ||
         kind == Kind::kStreamOrdered || kind == Kind::kGraphMemory ||
         (kind == Kind::kRegion && record.handle < format::array_place(0));
}

}  // namespace

bool MemoryPieces::open(Process& process, const HandleSet& handles) {
  int error = 0;
  bytes_ = (handles.missing() + 1) * sizeof(MemoryPiece);
  list_ = static_cast<MemoryPiece*>(map_private(bytes_, &error));
  if (list_ == nullptr) return false;
  handles.for_each_missing([&](std::uint64_t handle, format::Ref allocation, std::uint32_t tag) {
    const auto* record = process.dump.at<format::AllocationRecord>(allocation);
    const std::uint64_t end = handle + record->bytes;
    if (record->handle != handle || !is_addressed(*record) || end <= handle) return;
    list_[count_++] = {handle, end, allocation, tag, kNone};
    least_ = std::min(least_, handle);
    most_ = std::max(most_, end);
  });
  missing_ = count_;
  std::sort(list_, list_ + count_, [](const MemoryPiece& one, const MemoryPiece& other) {
    return one.begin != other.begin ? one.begin < other.begin : one.end > other.end;
  });
  nest();
  return true;
}

void MemoryPieces::close() {
  if (list_ != nullptr) unmap_private(list_, bytes_);
  list_ = nullptr;
}

void MemoryPieces::nest() {
  for (std::uint32_t i = 1; i < count_; ++i) {
    std::uint32_t outer = i - 1;
    while (outer != kNone && list_[outer].end <= list_[i].begin) outer = list_[outer].outer;
    list_[i].outer = outer;
  }
}

std::uint32_t MemoryPieces::last_from(std::uint64_t address) const {
  const MemoryPiece* behind =
      std::upper_bound(list_, list_ + count_, address,
                       [](std::uint64_t wanted, const MemoryPiece& piece) { return wanted < piece.begin; });
  return behind == list_ ? kNone : static_cast<std::uint32_t>(behind - list_) - 1;
}

}  // namespace culprit
