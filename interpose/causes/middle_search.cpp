#include "interpose/causes/middle_search.h"

#include "interpose/causes/memory_pieces.h"

namespace culprit {
namespace {

struct Search {
  MemoryPieces pieces;
  FoundHandle found;
  void* context;

  bool match(const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
    for (std::uint64_t i = 0; i < count; ++i) {
      pieces.visit_around(words[i], [&](MemoryPiece* piece) { note(piece, address + i * sizeof(words[0])); });
      if (i + 1 < count) match_between(words[i], words[i + 1], address + i * sizeof(words[0]));
    }
    return pieces.missing() != 0;
  }

  // Handles in the members of packed structs.
  void match_between(std::uint64_t word, std::uint64_t next, std::uint64_t address) {
    for (unsigned byte = 1; byte < sizeof(word); ++byte) {
      const std::uint64_t handle = word >> 8 * byte | next << 8 * (sizeof(word) - byte);
      pieces.visit(handle, [&](MemoryPiece* piece) {
        if (piece->begin == handle) note(piece, address + byte);
      });
    }
  }

  void note(MemoryPiece* piece, std::uint64_t address) {
    found(context, piece->allocation, piece->tag, address);
    pieces.set_found(piece);
  }
};

}  // namespace

ScanResult search_middles(Process& process, const HandleSet& handles, const MemoryRange* ranges, int count,
                          std::uint64_t deadline_ns, FoundHandle found, void* context) {
  if (handles.missing() == 0) return {format::HolderSearch::kDone, 0};
  Search search = {{}, found, context};
  if (!search.pieces.open(process, handles)) return {format::HolderSearch::kStopped, 0};
  ScanResult result = {format::HolderSearch::kDone, 0};
  if (search.pieces.missing() != 0) {
    const ReadResult read = read_written_memory(
        ranges, count, deadline_ns,
        [](void* one, const std::uint64_t* words, std::uint64_t word_count, std::uint64_t address) {
          return static_cast<Search*>(one)->match(words, word_count, address);
        },
        &search);
    result = {read.end == ReadEnd::kDone ? format::HolderSearch::kDone : format::HolderSearch::kStopped,
              read.bytes_read};
  }
  search.pieces.close();
  return result;
}

}  // namespace culprit
