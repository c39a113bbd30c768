// The chunks of glibc's malloc in this process, found by their headers and without a call of malloc.
//
//     begin - 16   size of the chunk before, if that one is free
//     begin - 8    size of this chunk, with three flags: 1 = the chunk before is in use, 2 = has a mapping of its own,
//                  4 = not of the main arena
//     begin        what malloc() returned
//
// (glibc, malloc/malloc.c, struct malloc_chunk; the same from 2.3 on.) A header is believed if a walk over all headers
// before leads to it (chunk_starts.h), where such a walk is possible, if the chunk lies inside its heap, and the next
// header says that the chunk is in use. Freed chunks that malloc keeps in the caches of threads
// look the same, and are known by a key in their second word (glibc 2.29 and later). Those in fast bins count as in
// use.
//
// Memory of other allocators has no such headers: of it a bounded part behind each pointer is looked at.
#pragma once

#include <cstdint>

#include "interpose/causes/chunk_starts.h"
#include "interpose/causes/page_copies.h"
#include "interpose/system/own_ranges.h"
#include "interpose/system/written_memory.h"

namespace culprit {

struct HeapChunk {
  std::uint64_t begin;
  std::uint64_t bytes;  // that the program may use
};

// The end of the heap of a thread that begins at `base`, in memory that ends at `most`; 0: there is none.
std::uint64_t end_of_thread_heap(std::uint64_t base, std::uint64_t most, PageCopies* pages);

// Private memory of its own, never malloc. Not thread-safe.
class HeapChunks {
 public:
  // Finds the heaps of this process. False without memory or without /proc.
  bool open();
  void close();

  // For tests: a heap that grows by brk(), or a mapping that may have heaps of threads or large chunks inside. In order
  // of addresses.
  bool open_empty();
  void add(MemoryRange range, bool program_break);

  // The chunk in use that `address` points into; false if there is none.
  bool find(std::uint64_t address, HeapChunk* chunk);

  // Memory that is not malloc's, where find() has found no chunk: at most so many bytes from `address` on.
  bool find_foreign(std::uint64_t address, std::uint64_t most, HeapChunk* chunk) const;

  PageCopies& pages() { return pages_; }

  // The second word of a freed chunk in a thread's cache; 0 = not known.
  std::uint64_t key() const { return key_; }

 private:
  struct Heap {
    std::uint64_t begin;
    std::uint64_t end;
    bool program_break;
  };
  struct ThreadHeap {
    std::uint64_t base;  // 0 = none was looked at
    std::uint64_t end;   // 0 = there is none at `base`
    ChunkStarts starts;  // of the first heap in this place alone: two that take turns would be walked again and again
  };
  static constexpr std::uint64_t kThreadHeaps = 1024;
  static constexpr std::uint64_t kMostHeaps = 1 << 16;

  const Heap* heap_of(std::uint64_t address) const;
  bool is_own(std::uint64_t address) const;
  // Between the first header of a heap and its end.
  bool find_between(std::uint64_t address, std::uint64_t begin, std::uint64_t end, ChunkStarts* starts,
                    HeapChunk* chunk);
  ThreadHeap& thread_heap_at(std::uint64_t base, const Heap& heap);
  void walk_thread_heap(ThreadHeap* heap);
  bool find_mapped(std::uint64_t address, const Heap& heap, HeapChunk* chunk);
  bool chunk_at(std::uint64_t begin, std::uint64_t least, std::uint64_t end, HeapChunk* chunk);
  void learn_key(const Heap& heap);

  PageCopies pages_;
  bool glibcs_ = true;  // malloc() is; else there are no headers where the program break was
  Heap* heaps_ = nullptr;
  OwnRange* own_ = nullptr;  // memory of this library, sorted
  int own_count_ = 0;
  std::uint64_t count_ = 0;
  ChunkStarts break_starts_;
  ThreadHeap thread_heaps_[kThreadHeaps] = {};  // those that were looked at, by their bases
  std::uint64_t key_ = 0;                       // in the second word of a chunk in a thread's cache, 0 = not known
};

}  // namespace culprit
