#include "interpose/dump/record_pool.h"

#include "interpose/base/assertion.h"
#include "interpose/system/own_stack.h"

namespace culprit {

using format::AllocationRecord;
using format::Ref;

namespace {
constexpr std::uint32_t kUnits = sizeof(AllocationRecord) / format::kRefUnit;
}

Ref RecordPool::allocate(std::uint32_t count, DumpWriter& dump) {
  const Ref first = dump.allocate_records(format::ChunkType::kAllocations, count, nullptr);
  if (first != 0) __atomic_fetch_add(&allocated_, count, __ATOMIC_RELAXED);
  return first;
}

// Makes records of holes available. Returns false when there is none, or the disk is full.
bool RecordPool::fill_holes(DumpWriter& dump) {
  UnusedRecords::Run run;
  std::uint32_t generation;
  {
    SpinGuard guard(lock_);
    run = unused_.take_holes();
    generation = generation_;
  }
  if (run.pages == 0) return false;
  if (!dump.reserve_again(run.first(), run.bytes())) {
    SpinGuard guard(lock_);
    unused_.add_holes(run);
    return false;
  }
  // Generations never go back: a note of a record that was here before the hole must not fit the next one.
  for (std::uint32_t i = 0; i < run.pages * UnusedRecords::kOfPage; ++i) {
    auto* record = dump.at<AllocationRecord>(run.first() + i * kUnits);
    __atomic_store_n(&record->state, generation << format::kStateBits, __ATOMIC_RELAXED);
  }
  SpinGuard guard(lock_);
  unused_.add_pages(run);
  return true;
}

// Gives the disk blocks of some idle pages back, if many are idle. Where memory was ended in another order than it was
// made, each run has a page or two at first: the number of runs bounds the time.
void RecordPool::make_holes(DumpWriter& dump) {
  constexpr int kMostRuns = 32;
  for (int i = 0; i < kMostRuns && make_hole(dump); ++i) {
  }
}

// Returns whether it made one.
bool RecordPool::make_hole(DumpWriter& dump) {
  UnusedRecords::Run run;
  {
    SpinGuard guard(lock_);
    if (keeps_pages_) return false;
    run = unused_.take_idle(__atomic_load_n(&allocated_, __ATOMIC_RELAXED) / UnusedRecords::kOfPage);
  }
  if (run.pages == 0) return false;
  std::uint32_t generation = 0;
  for (std::uint32_t i = 0; i < run.pages * UnusedRecords::kOfPage; ++i) {
    const std::uint32_t one = dump.at<AllocationRecord>(run.first() + i * kUnits)->state >> format::kStateBits;
    if (one > generation) generation = one;
  }
  const bool made = dump.make_hole(run.first(), run.bytes());
  SpinGuard guard(lock_);
  if (generation > generation_) generation_ = generation;
  if (made) {
    unused_.add_holes(run);
  } else {
    keeps_pages_ = true;
    unused_.add_pages(run);
  }
  return made;
}

Ref RecordPool::take_shared(DumpWriter& dump) {
  return on_own_stack([&] { return take_shared_here(dump); });
}

Ref RecordPool::take_shared_here(DumpWriter& dump) {
  do {
    Ref ref = 0;
    SpinGuard guard(lock_);
    if (unused_.take(&ref, 1) == 1) return ref;
  } while (fill_holes(dump));
  return allocate(1, dump);
}

Ref RecordPool::refill(RecordCache* cache, DumpWriter& dump) {
  if (cache->run_left_ > 0) return cache->pop_run();
  return on_own_stack([&] { return refill_here(cache, dump); });
}

// Up to `count` records together, unless fewer than `least` are there.
void RecordPool::take_unused(RecordCache* cache, std::uint32_t count, std::uint32_t least, DumpWriter& dump) {
  CULPRIT_ASSERT(cache->fresh_count_ == 0);
  Ref* const fresh = cache->fresh_;
  for (;;) {
    {
      SpinGuard guard(lock_);
      if (unused_.count() >= least) cache->fresh_count_ = unused_.take(fresh, count);
      if (cache->fresh_count_ != 0 || unused_.holes() == 0) break;
    }
    if (!fill_holes(dump)) return;
  }
  // From the end, so that they are used in the order of their addresses.
  for (std::uint32_t i = 0; i < cache->fresh_count_ / 2; ++i) {
    const Ref other = fresh[i];
    fresh[i] = fresh[cache->fresh_count_ - 1 - i];
    fresh[cache->fresh_count_ - 1 - i] = other;
  }
}

// For a thread that has no record yet, where too few are unused. Not in a small dump, and not for thousands of
// threads: the records of a run serve only their thread.
bool RecordPool::take_run(RecordCache* cache, DumpWriter& dump) {
  constexpr std::uint32_t kMostInUse = 256;
  constexpr std::uint64_t kLeastLimit = 64 << 20;
  if (dump.limit() < kLeastLimit) return false;
  {
    SpinGuard guard(lock_);
    if (runs_in_use_ == kMostInUse) return false;
    ++runs_in_use_;
  }
  cache->run_ = allocate(RecordCache::kRun, dump);
  if (cache->run_ != 0) {
    cache->run_left_ = RecordCache::kRun;
    return true;
  }
  SpinGuard guard(lock_);
  --runs_in_use_;
  return false;
}

Ref RecordPool::refill_here(RecordCache* cache, DumpWriter& dump) {
  if (!cache->has_begun_) {
    cache->has_begun_ = true;
    take_unused(cache, RecordCache::kRun, RecordCache::kRun, dump);
    if (cache->fresh_count_ == 0 && take_run(cache, dump)) return cache->pop_run();
  }
  if (cache->fresh_count_ == 0) take_unused(cache, RecordCache::kBatch, 1, dump);
  if (cache->fresh_count_ == 0) {
    const Ref first = allocate(RecordCache::kBatch, dump);
    if (first == 0) return cache->count_ > 0 ? cache->pop_oldest() : 0;
    for (std::uint32_t i = RecordCache::kBatch; i > 0; --i)
      cache->fresh_[cache->fresh_count_++] = first + (i - 1) * kUnits;
  }
  return cache->fresh_[--cache->fresh_count_];
}

void RecordPool::give_shared(RecordCache* cache, Ref ref, DumpWriter& dump) {
  on_own_stack([&] { give_shared_here(cache, ref, dump); });
}

void RecordPool::give_shared_here(RecordCache* cache, Ref ref, DumpWriter& dump) {
  {
    SpinGuard guard(lock_);
    if (cache == nullptr) {
      unused_.add(ref);
    } else {
      for (std::uint32_t i = 0; i < RecordCache::kBatch; ++i) unused_.add(cache->pop_oldest());
      cache->ended_[(cache->first_ + cache->count_++) % RecordCache::kCapacity] = ref;
    }
  }
  make_holes(dump);
}

void RecordPool::give_all(RecordCache* cache, DumpWriter& dump) {
  give_each(cache);
  make_holes(dump);
}

void RecordPool::give_each(RecordCache* cache) {
  SpinGuard guard(lock_);
  while (cache->fresh_count_ > 0) unused_.add(cache->fresh_[--cache->fresh_count_]);
  while (cache->count_ > 0) unused_.add(cache->pop_oldest());
  if (cache->run_ == 0) return;
  --runs_in_use_;
  while (cache->run_left_ > 0) unused_.add(cache->pop_run());
  cache->run_ = 0;
  cache->has_begun_ = false;
}

}  // namespace culprit
