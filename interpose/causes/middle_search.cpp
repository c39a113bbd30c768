#include "interpose/causes/middle_search.h"

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

struct Piece {
  std::uint64_t begin, end;
  format::Ref allocation;
  std::uint32_t tag;  // 0 = found
};

// The pieces of memory without a holder, sorted by their beginnings.
struct Pieces {
  Piece* list;
  std::uint64_t count, missing;
  std::uint64_t least, most;
  FoundHandle found;
  void* context;

  bool match(const std::uint64_t* words, std::uint64_t word_count, std::uint64_t address) {
    for (std::uint64_t i = 0; i < word_count; ++i) {
      const std::uint64_t word = words[i];
      if (word <= least || word >= most) continue;
      Piece* behind = std::upper_bound(list, list + count, word,
                                       [](std::uint64_t wanted, const Piece& piece) { return wanted < piece.begin; });
      if (behind == list) continue;
      Piece& piece = *(behind - 1);
      if (word == piece.begin || word >= piece.end || piece.tag == 0) continue;
      found(context, piece.allocation, piece.tag, address + i * sizeof(word));
      piece.tag = 0;
      if (--missing == 0) return false;
    }
    return true;
  }
};

bool look_for_middles(void* context, const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
  return static_cast<Pieces*>(context)->match(words, count, address);
}

}  // namespace

ScanResult search_middles(Process& process, const HandleSet& handles, const MemoryRange* ranges, int count,
                          std::uint64_t deadline_ns, FoundHandle found, void* context) {
  if (handles.missing() == 0) return {format::HolderSearch::kDone, 0};
  const std::uint64_t bytes = handles.missing() * sizeof(Piece);
  int error = 0;
  auto* list = static_cast<Piece*>(map_private(bytes, &error));
  if (list == nullptr) return {format::HolderSearch::kStopped, 0};
  Pieces pieces = {list, 0, 0, ~0ULL, 0, found, context};
  handles.for_each_missing([&](std::uint64_t handle, format::Ref allocation, std::uint32_t tag) {
    const auto* record = process.dump.at<format::AllocationRecord>(allocation);
    const std::uint64_t end = handle + record->bytes;
    if (record->handle != handle || !is_addressed(record->kind) || end <= handle) return;
    list[pieces.count++] = {handle, end, allocation, tag};
    if (handle < pieces.least) pieces.least = handle;
    if (end > pieces.most) pieces.most = end;
  });
  pieces.missing = pieces.count;
  ScanResult result = {format::HolderSearch::kDone, 0};
  if (pieces.count != 0) {
    std::sort(list, list + pieces.count, [](const Piece& one, const Piece& other) { return one.begin < other.begin; });
    const ReadResult read = read_written_memory(ranges, count, deadline_ns, look_for_middles, &pieces);
    result = {read.end == ReadEnd::kDone ? format::HolderSearch::kDone : format::HolderSearch::kStopped,
              read.bytes_read};
  }
  unmap_private(list, bytes);
  return result;
}

}  // namespace culprit
