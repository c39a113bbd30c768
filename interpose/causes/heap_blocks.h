// All chunks of glibc's malloc in this process, in order of addresses: for a search that must know the chunk around any
// address. heap_chunks.h describes a chunk.
//
// A heap is walked from its first chunk to its end by the sizes in the headers. Only a walk that arrives at the end
// exactly is believed. The rest is no block, and the caller reads it in whole.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/heap_chunks.h"
#include "interpose/causes/malloc_layout.h"
#include "interpose/system/written_memory.h"

namespace culprit {

class HeapBlocks {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // `pages`: read through, outlives this. `key`: of HeapChunks. False without memory.
  bool open(PageCopies* pages, std::uint64_t key);
  void close();

  // The heap that grows by brk(), in whole. Returns false if it is not understood.
  bool add_break_heap(const MemoryRange& heap);

  // Anonymous memory that may begin with chunks that have mappings of their own, and may contain heaps of threads.
  // Calls rest(begin, end) for the parts that are no blocks. Ranges come in order of addresses, and after the heap that
  // grows by brk() if that lies before them.
  template <typename Rest>
  void add_mapping(const MemoryRange& range, Rest rest) {
    std::uint64_t at = range.begin;
    bool chunks_begin = true;
    while (at < range.end) {
      std::uint64_t end = 0;
      if (is_heap_place(at) && add_thread_heap(at, range.end, &end)) {
        at = end;
        chunks_begin = true;
      } else if (chunks_begin && add_mapped_chunk(at, range.end, &end)) {
        at = end;
      } else {
        end = next_heap_place(at);
        if (end > range.end) end = range.end;
        rest(at, end);
        at = end;
        chunks_begin = false;
      }
    }
  }

  // Whether there was no room for a chunk.
  bool is_full() const { return full_; }

  // The block in use that contains `address`, or ends there; kNone if there is none.
  std::uint32_t find(std::uint64_t address) const {
    if (address - least_ > span_) return kNone;
    return search(address);
  }
  std::uint64_t begin_of(std::uint32_t block) const { return begins_[block] & ~kFlags; }
  // Where the memory ends that the program may use.
  std::uint64_t end_of(std::uint32_t block) const {
    return (begins_[block + 1] & ~kFlags) - ((begins_[block] & kMapped) != 0 ? 16 : 8);
  }

  // Marks a block. Returns false if it was marked before.
  bool mark(std::uint32_t block) {
    if ((begins_[block] & kMarked) != 0) return false;
    begins_[block] |= kMarked;
    return true;
  }
  bool is_marked(std::uint32_t block) const { return (begins_[block] & kMarked) != 0; }
  // Calls visit(begin, end) for ranges in which all blocks lie, with each block's end.
  template <typename Visit>
  void for_each_range(Visit visit) const {
    for (std::uint32_t i = 0; i + 1 < count_; ++i) {
      if ((begins_[i] & kGap) == 0) visit(begin_of(i), begin_of(i + 1));
    }
  }
  // For the room of a queue.
  std::uint32_t size() const { return count_; }

 private:
  static constexpr std::uint64_t kMost = 1 << 26;
  static constexpr std::uint64_t kLeast = 1 << 16;
  // In the lower bits of a beginning, which is a multiple of 16.
  static constexpr std::uint64_t kGap = 1;
  static constexpr std::uint64_t kFree = 2;
  static constexpr std::uint64_t kMarked = 4;
  static constexpr std::uint64_t kMapped = 8;  // has a mapping of its own
  static constexpr std::uint64_t kFlags = 15;

  static bool is_heap_place(std::uint64_t address) { return address % malloc_layout::kThreadHeap == 0; }
  static std::uint64_t next_heap_place(std::uint64_t address) {
    return (address / malloc_layout::kThreadHeap + 1) * malloc_layout::kThreadHeap;
  }

  std::uint32_t search(std::uint64_t address) const;
  bool add_thread_heap(std::uint64_t base, std::uint64_t most, std::uint64_t* end);
  bool add_mapped_chunk(std::uint64_t page, std::uint64_t most, std::uint64_t* end);
  bool walk(std::uint64_t first, std::uint64_t end);
  bool add(std::uint64_t begin_and_flags);
  void gap(std::uint64_t address) { add((address + kFlags) / 16 * 16 | kGap); }

  PageCopies* pages_ = nullptr;
  std::uint64_t key_ = 0;
  std::uint64_t* begins_ = nullptr;
  std::uint64_t room_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t least_ = 0;
  std::uint64_t span_ = 0;
  bool full_ = false;
};

}  // namespace culprit
