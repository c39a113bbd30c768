// How glibc's malloc lays out its chunks: see heap_chunks.h for the picture (malloc/malloc.c and malloc/arena.c).
#pragma once

#include <cstdint>

namespace culprit::malloc_layout {

// Chunks begin at multiples of 16, and the smallest takes 32 bytes with its header.
inline constexpr std::uint64_t kAlignment = 16;
inline constexpr std::uint64_t kHeader = 16;  // before the begin; its first half belongs to the chunk before
inline constexpr std::uint64_t kLeastSize = 32;
// Flags in the size.
inline constexpr std::uint64_t kInUseBefore = 1;
inline constexpr std::uint64_t kOwnMapping = 2;
inline constexpr std::uint64_t kSizeFlags = 7;
// The size in a header of a heap with `room` bytes from this chunk on; 0 if no chunk there has such a header.
inline std::uint64_t size_of_chunk(std::uint64_t header, std::uint64_t room) {
  const std::uint64_t size = header & ~kSizeFlags;
  const bool right = (header & kOwnMapping) == 0 && size >= kLeastSize && size % kAlignment == 0 && size <= room;
  return right ? size : 0;
}
// The heaps of threads begin at multiples of their largest size.
inline constexpr std::uint64_t kThreadHeap = 64 << 20;
// Before the first chunk of such a heap lie struct heap_info and, in the arena's first heap, struct malloc_state, whose
// sizes differ between versions.
inline constexpr std::uint64_t kLeastBeforeFirst = 32;
inline constexpr std::uint64_t kMostBeforeFirst = 4096;

}  // namespace culprit::malloc_layout
