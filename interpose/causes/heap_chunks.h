// The chunks of glibc's malloc in this process, found by their headers and without a call of malloc.
//
//     begin - 16   size of the chunk before, if that one is free
//     begin - 8    size of this chunk, with three flags: 1 = the chunk before is in use, 2 = has a mapping of its own,
//                  4 = not of the main arena
//     begin        what malloc() returned
//
// (glibc, malloc/malloc.c, struct malloc_chunk; the same from 2.3 on.) A header is believed if the chunk lies inside
// its heap and the next header says that the chunk is in use. Freed chunks that malloc keeps in the caches of threads
// look the same, and are known by a key in their second word (glibc 2.29 and later). Those in fast bins count as in
// use.
//
// Memory of other allocators has no such headers: of it a bounded part behind each pointer is looked at.
#pragma once

#include <cstdint>

#include "interpose/system/own_ranges.h"
#include "interpose/system/written_memory.h"

namespace culprit {

struct HeapChunk {
  std::uint64_t begin;
  std::uint64_t bytes;  // that the program may use
};

// A copy of the pages that were read last. Memory may change, be protected or be unmapped meanwhile.
class PageCopies {
 public:
  // False without memory.
  bool open();
  void close();

  // The copy of the page that `address` lies in, valid until the next call; nullptr if it cannot be read.
  const std::uint64_t* page(std::uint64_t address) {
    const std::uint64_t block = address / kBlock;
    const Slot& slot = slots_[block % kSlots];
    const std::uint64_t in_block = address / kPage % kPagesOfBlock;
    if (slot.block != block || (slot.pages >> in_block & 1) == 0) return read(address);
    return copy_of(block, in_block);
  }

  // Reads an aligned word. False if it cannot be read.
  bool word(std::uint64_t address, std::uint64_t* value) {
    const std::uint64_t* words = page(address);
    if (words != nullptr) *value = words[address % kPage / sizeof(std::uint64_t)];
    return words != nullptr;
  }

  static constexpr std::uint64_t kPage = 4096;  // also where the kernel's are larger

 private:
  // Pages are read in blocks, because a system call costs more than the pages beside the wanted one.
  static constexpr std::uint64_t kPagesOfBlock = 4;
  static constexpr std::uint64_t kBlock = kPagesOfBlock * kPage;
  static constexpr std::uint64_t kSlots = 1024;
  struct Slot {
    std::uint64_t block;  // address / kBlock
    std::uint64_t pages;  // bit N: page N of it is there
  };
  static constexpr std::uint64_t kBytes = kSlots * (kBlock + sizeof(Slot));

  std::uint64_t* copy_of(std::uint64_t block, std::uint64_t page) {
    return copies_ + (block % kSlots * kBlock + page * kPage) / sizeof(std::uint64_t);
  }
  const std::uint64_t* read(std::uint64_t address);

  std::uint64_t* copies_ = nullptr;
  Slot* slots_ = nullptr;
};

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
  };
  static constexpr std::uint64_t kMostHeaps = 1 << 16;

  const Heap* heap_of(std::uint64_t address) const;
  bool is_own(std::uint64_t address) const;
  bool find_between(std::uint64_t address, std::uint64_t begin, std::uint64_t end, HeapChunk* chunk);
  bool find_mapped(std::uint64_t address, const Heap& heap, HeapChunk* chunk);
  bool chunk_at(std::uint64_t begin, std::uint64_t least, std::uint64_t end, HeapChunk* chunk);
  void learn_key(const Heap& heap);
  std::uint64_t end_of_thread_heap(std::uint64_t base, const Heap& heap);

  PageCopies pages_;
  bool glibcs_ = true;  // malloc() is; else there are no headers where the program break was
  Heap* heaps_ = nullptr;
  OwnRange* own_ = nullptr;  // memory of this library, sorted
  int own_count_ = 0;
  std::uint64_t count_ = 0;
  ThreadHeap last_ = {};   // looked at
  std::uint64_t key_ = 0;  // in the second word of a chunk in a thread's cache, 0 = not known
};

}  // namespace culprit
