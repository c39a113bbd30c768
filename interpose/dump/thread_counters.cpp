#include "interpose/dump/thread_counters.h"

namespace culprit {

using format::Ref;
using format::StackCounter;
using format::StackRecord;
using format::ThreadCounters;

ThreadCounters* CounterBlocks::take(DumpWriter& dump) {
  SpinGuard guard(lock_);
  Ref ref = free_;
  if (ref != 0) {
    free_ = dump.at<ThreadCounters>(ref)->next_free;
  } else {
    ref = dump.allocate_records(format::ChunkType::kCounters, 1, nullptr);
    if (ref == 0) return nullptr;
    dump.at<ThreadCounters>(ref)->self = ref;
    dump.at<ThreadCounters>(ref)->next_block = first_;
    first_ = ref;
  }
  return dump.at<ThreadCounters>(ref);
}

void CounterBlocks::give_back(ThreadCounters* block) {
  SpinGuard guard(lock_);
  block->next_free = free_;
  free_ = block->self;
}

void CounterBlocks::sum(std::uint64_t* allocations, std::uint64_t* frees, DumpWriter& dump) {
  SpinGuard guard(lock_);
  *allocations = dump.header()->allocations;
  *frees = dump.header()->frees;
  for (Ref ref = first_; ref != 0; ref = dump.at<ThreadCounters>(ref)->next_block) {
    *allocations += __atomic_load_n(&dump.at<ThreadCounters>(ref)->allocations, __ATOMIC_RELAXED);
    *frees += __atomic_load_n(&dump.at<ThreadCounters>(ref)->frees, __ATOMIC_RELAXED);
  }
}

StackCounter* start_counting(StackCounter* counter, Ref stack, DumpWriter& dump) {
  // Another stack of this thread has the counter: its counts move to the sums of all threads.
  if (counter->stack != 0) {
    auto* sum = dump.at<StackRecord>(counter->stack);
    add_counter(sum->allocations, counter->allocations);
    add_counter(sum->bytes_allocated, counter->bytes);
  }
  counter->allocations = 0;
  counter->bytes = 0;
  __atomic_store_n(&counter->stack, stack, __ATOMIC_RELEASE);
  return counter;
}

}  // namespace culprit
