#include "interpose/dump/record_pool.h"

#include "interpose/system/own_stack.h"

namespace culprit {

using format::AllocationRecord;
using format::Ref;

void RecordPool::chain_locked(Ref ref, DumpWriter& dump) {
  dump.at<AllocationRecord>(ref)->next = free_head_;
  free_head_ = ref;
  ++free_count_;
}

Ref RecordPool::unchain_locked(DumpWriter& dump) {
  Ref ref = free_head_;
  if (ref == 0) return 0;
  free_head_ = dump.at<AllocationRecord>(ref)->next;
  --free_count_;
  return ref;
}

Ref RecordPool::take_shared(DumpWriter& dump) {
  return on_own_stack([&] { return take_shared_here(dump); });
}

Ref RecordPool::take_shared_here(DumpWriter& dump) {
  {
    SpinGuard guard(lock_);
    if (Ref ref = unchain_locked(dump)) return ref;
  }
  return dump.allocate_records(format::ChunkType::kAllocations, 1, nullptr);
}

Ref RecordPool::refill(RecordCache* cache, DumpWriter& dump) {
  if (cache->run_left_ > 0) return cache->pop_run();
  return on_own_stack([&] { return refill_here(cache, dump); });
}

// Up to `count` records together, unless fewer than `least` are there.
void RecordPool::take_chained(RecordCache* cache, std::uint32_t count, std::uint32_t least, DumpWriter& dump) {
  SpinGuard guard(lock_);
  if (free_count_ < least) return;
  while (cache->fresh_count_ < count && free_head_ != 0) cache->fresh_[cache->fresh_count_++] = unchain_locked(dump);
}

// For a thread that has no record yet, where the chain is too short. Not in a small dump, and not for thousands of
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
  cache->run_ = dump.allocate_records(format::ChunkType::kAllocations, RecordCache::kRun, nullptr);
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
    take_chained(cache, RecordCache::kRun, RecordCache::kRun, dump);
    if (cache->fresh_count_ == 0 && take_run(cache, dump)) return cache->pop_run();
  }
  if (cache->fresh_count_ == 0) take_chained(cache, RecordCache::kBatch, 0, dump);
  if (cache->fresh_count_ == 0) {
    Ref first = dump.allocate_records(format::ChunkType::kAllocations, RecordCache::kBatch, nullptr);
    if (first == 0) return cache->count_ > 0 ? cache->pop_oldest() : 0;
    // From the end, so that they are used in the order of their addresses.
    for (std::uint32_t i = RecordCache::kBatch; i > 0; --i) {
      Ref units = static_cast<Ref>(sizeof(AllocationRecord) / format::kRefUnit);
      cache->fresh_[cache->fresh_count_++] = first + (i - 1) * units;
    }
  }
  return cache->fresh_[--cache->fresh_count_];
}

void RecordPool::give_shared(RecordCache* cache, Ref ref, DumpWriter& dump) {
  on_own_stack([&] { give_shared_here(cache, ref, dump); });
}

void RecordPool::give_shared_here(RecordCache* cache, Ref ref, DumpWriter& dump) {
  SpinGuard guard(lock_);
  if (cache == nullptr) {
    chain_locked(ref, dump);
    return;
  }
  for (std::uint32_t i = 0; i < RecordCache::kBatch; ++i) chain_locked(cache->pop_oldest(), dump);
  cache->ended_[(cache->first_ + cache->count_++) % RecordCache::kCapacity] = ref;
}

void RecordPool::give_all(RecordCache* cache, DumpWriter& dump) {
  SpinGuard guard(lock_);
  while (cache->fresh_count_ > 0) chain_locked(cache->fresh_[--cache->fresh_count_], dump);
  while (cache->count_ > 0) chain_locked(cache->pop_oldest(), dump);
  if (cache->run_ == 0) return;
  --runs_in_use_;
  while (cache->run_left_ > 0) chain_locked(cache->pop_run(), dump);
  cache->run_ = 0;
  cache->has_begun_ = false;
}

}  // namespace culprit
