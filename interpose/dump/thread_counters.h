// The counters of each thread, in the dump: how much it made and ended, and with which stacks. Only the owner stores,
// with plain instructions, so that concurrent threads share no cache line; a reader sums the counters of all threads.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

// Hands out and takes back blocks. Thread-safe.
class CounterBlocks {
 public:
  // A block for the calling thread: an ended thread's, with its counts, or a new one. nullptr = no room.
  format::ThreadCounters* take(DumpWriter& dump);
  void give_back(format::ThreadCounters* block);

  // The sums over all threads.
  void sum(std::uint64_t* allocations, std::uint64_t* frees, DumpWriter& dump);

 private:
  SpinLock lock_;
  format::Ref free_;   // chain through `next_free`
  format::Ref first_;  // chain through `next_block`
};

inline void add_own(std::uint64_t& counter, std::uint64_t amount) {
  __atomic_store_n(&counter, counter + amount, __ATOMIC_RELAXED);
}

// Assigns a counter of the calling thread to `stack`. Returns its address, so that the caller need not compute an index
// again.
CULPRIT_COLD format::StackCounter* start_counting(format::StackCounter* counter, format::Ref stack, DumpWriter& dump);

// Count an allocation of `bytes` with `stack`, and a free. `block`: the calling thread's.
inline void count_allocation(format::ThreadCounters& block, format::Ref stack, std::uint64_t bytes, DumpWriter& dump) {
  add_own(block.allocations, 1);
  if (CULPRIT_UNLIKELY(stack == 0)) return;
  // The upper bits of a hash, brought into range by a multiplication instead of a division.
  format::StackCounter* counter = &block.stacks[std::uint64_t{stack * 0x9e3779b1U} * format::kStackCounters >> 32];
  if (CULPRIT_UNLIKELY(counter->stack != stack)) counter = start_counting(counter, stack, dump);
  add_own(counter->allocations, 1);
  if (bytes != 0) add_own(counter->bytes, bytes);
}
inline void count_free(format::ThreadCounters& block) { add_own(block.frees, 1); }

// Besides count_allocation() and count_free(), for a thing that is no memory.
inline void count_object(format::ThreadCounters& block) { add_own(block.objects, 1); }
inline void count_object_free(format::ThreadCounters& block) { add_own(block.object_frees, 1); }

// Undoes the counts of an object's end, which the driver refused.
inline void uncount_object_free(format::ThreadCounters& block) {
  add_own(block.frees, ~std::uint64_t{0});
  add_own(block.object_frees, ~std::uint64_t{0});
}

// Variants for a thread that may have no block (nullptr).
inline void count_allocation(format::ThreadCounters* block, format::Ref stack, std::uint64_t bytes, DumpWriter& dump) {
  if (CULPRIT_LIKELY(block != nullptr)) {
    count_allocation(*block, stack, bytes, dump);
  } else {
    add_counter(dump.header()->allocations, 1);
  }
}
inline void count_free(format::ThreadCounters* block, DumpWriter& dump) {
  if (CULPRIT_LIKELY(block != nullptr)) {
    count_free(*block);
  } else {
    add_counter(dump.header()->frees, 1);
  }
}
inline void count_object(format::ThreadCounters* block, DumpWriter& dump) {
  if (CULPRIT_LIKELY(block != nullptr)) {
    count_object(*block);
  } else {
    add_counter(dump.header()->objects, 1);
  }
}
inline void count_object_free(format::ThreadCounters* block, DumpWriter& dump) {
  if (CULPRIT_LIKELY(block != nullptr)) {
    count_object_free(*block);
  } else {
    add_counter(dump.header()->object_frees, 1);
  }
}

}  // namespace culprit
