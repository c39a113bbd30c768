// The chunks that a search through the heap has reached, found by their begin, and the order in which it reads them.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

enum HeapNodeFlags : std::uint8_t {
  kNodeMarked = 1,     // the driver's data lead to it, and none of the program's is known to
  kNodeUncertain = 2,  // the path passes such a chunk, or memory that is not malloc's
  kNodeWindow = 4,     // not malloc's, of unknown size
};

struct HeapNode {
  std::uint64_t begin;
  std::uint64_t bytes;
  std::uint64_t at;      // of the pointer: an address in a module's data, or an offset in the chunk `parent`
  std::uint64_t behind;  // the word behind that pointer
  std::uint32_t parent;  // HeapNodes::kRoot: a module's data
  std::uint32_t inner;   // where that pointer points, from the begin on
  std::uint32_t times;   // chunks of this size in a row that `at` leads through, this one included
  format::Ref step;      // its HeapStepRecord, 0 = not written
  std::uint32_t read;    // kNodeWindow: so many bytes of it were read
  std::uint8_t depth;    // steps from the data
  std::uint8_t run;      // steps of this size in a row
  std::uint8_t flags;    // HeapNodeFlags
};

class HeapNodes {
 public:
  static constexpr std::uint32_t kRoot = 0xffffffff;
  static constexpr std::uint32_t kNone = 0xfffffffe;

  // Takes room for four million nodes, or for as many as there is memory for. False if that is hardly any.
  bool open();
  void close();

  // The number of the node that begins there; a new one, all zeros, if there is none. kNone without room.
  std::uint32_t add(std::uint64_t begin, bool* added);

  HeapNode& operator[](std::uint32_t number) { return nodes_[number]; }
  std::uint32_t count() const { return count_; }

  // Sorts the begins of the nodes that are there. False without memory.
  bool sort_begins();
  // The first of them behind `begin`; the end of the address space if there is none.
  std::uint64_t next_begin(std::uint64_t begin) const;

  // The nodes that are to be read, first in, first out. A node is put in twice at most.
  void enqueue(std::uint32_t number) { queue_[queued_++] = number; }
  bool next(std::uint32_t* number) {
    if (read_ == queued_) return false;
    *number = queue_[read_++];
    return true;
  }
  // Those that were not read yet stay unread.
  void drop_queue() { read_ = queued_; }

  // The nodes that are to be read last, each put in once.
  void defer(std::uint32_t number) { deferred_[deferred_count_++] = number; }
  std::uint32_t deferred(std::uint32_t index) const { return deferred_[index]; }
  std::uint32_t deferred_count() const { return deferred_count_; }

 private:
  static constexpr std::uint64_t kMost = 1 << 22;
  static constexpr std::uint64_t kLeast = 1 << 12;

  std::uint64_t bytes() const;

  HeapNode* nodes_ = nullptr;
  std::uint32_t* queue_ = nullptr;  // twice as many as nodes
  std::uint32_t* deferred_ = nullptr;
  std::uint64_t* begins_ = nullptr;
  std::uint64_t begin_count_ = 0;
  std::uint32_t* table_ = nullptr;  // number plus 1, 0 = free; twice as many as nodes
  std::uint64_t capacity_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t deferred_count_ = 0;
  std::uint32_t queued_ = 0;
  std::uint32_t read_ = 0;
};

}  // namespace culprit
