#include "interpose/causes/memory_pieces.h"

#include <algorithm>

#include "interpose/format/kinds.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// Handles of these kinds are addresses, and their bytes follow.
bool is_addressed(format::Kind kind) {
  using format::Kind;
  return kind == Kind::kDevice || kind == Kind::kPitched || kind == Kind::kManaged || kind == Kind::kPinnedHost ||
         kind == Kind::kStreamOrdered || kind == Kind::kGraphMemory;
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
    if (record->handle != handle || !is_addressed(record->kind) || end <= handle) return;
    list_[count_++] = {handle, end, allocation, tag};
    least_ = std::min(least_, handle);
    most_ = std::max(most_, end);
  });
  missing_ = count_;
  std::sort(list_, list_ + count_,
            [](const MemoryPiece& one, const MemoryPiece& other) { return one.begin < other.begin; });
  return true;
}

void MemoryPieces::close() {
  if (list_ != nullptr) unmap_private(list_, bytes_);
  list_ = nullptr;
}

MemoryPiece* MemoryPieces::look_up(std::uint64_t address) {
  MemoryPiece* behind =
      std::upper_bound(list_, list_ + count_, address,
                       [](std::uint64_t wanted, const MemoryPiece& piece) { return wanted < piece.begin; });
  if (behind == list_) return nullptr;
  MemoryPiece* piece = behind - 1;
  return address < piece->end && piece->tag != 0 ? piece : nullptr;
}

}  // namespace culprit
