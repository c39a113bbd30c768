// Unused allocation records. Each thread caches some, so that making and ending an allocation needs no lock; threads
// exchange records in batches.
//
// An ended record stays unchanged until it is reused, and a thread reuses its records in the order in which they were
// ended: so the last kKept of each thread are still available for reports of double frees.
//
// Where a program has ended most of what it made, the disk blocks of pages whose records are all unused are given back,
// some pages whenever a thread returns a batch: the dump of a server is as small as what is live, to within a factor of
// two and 1 MiB. This is no work for threads that make and end in turn, because they return nothing.
//
// A thread gets so many records at its first allocation that a pair of calls never needs more: a thread under strict
// seccomp, which the kernel ends at its next system call, records such pairs (system/clock.h does its part).
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/dump/unused_records.h"

namespace culprit {

// The cache of one thread.
class RecordCache {
 private:
  friend class RecordPool;
  static constexpr std::uint32_t kKept = 128;  // ended records that are not reused while there are others
  static constexpr std::uint32_t kCapacity = 256;
  static constexpr std::uint32_t kBatch = 32;
  static constexpr std::uint32_t kRun = kKept + kBatch;
  format::Ref pop_oldest() {
    --count_;
    return ended_[first_++ % kCapacity];
  }

  format::Ref pop_run() {
    const format::Ref ref = run_;
    run_ += sizeof(format::AllocationRecord) / format::kRefUnit;
    --run_left_;
    return ref;
  }

  std::uint32_t first_;
  std::uint32_t fresh_count_;
  std::uint32_t count_;
  format::Ref ended_[kCapacity];  // a ring, oldest first
  format::Ref fresh_[kRun];
  format::Ref run_;  // records that were never used, one behind the other
  std::uint32_t run_left_;
  bool has_begun_;
};

// Thread-safe, if each cache is used by one thread only.
class RecordPool {
 public:
  // An unused record; 0 when there is no room. `cache` may be nullptr.
  format::Ref take(RecordCache* cache, DumpWriter& dump) {
    if (CULPRIT_UNLIKELY(cache == nullptr)) return take_shared(dump);
    if (cache->fresh_count_ > 0) return cache->fresh_[--cache->fresh_count_];
    if (cache->count_ > RecordCache::kKept) return cache->pop_oldest();
    return refill(cache, dump);
  }

  // Like take() and give(), where that needs no lock and no other records; take_at_hand() returns 0, and changes
  // nothing, where it does.
  static format::Ref take_at_hand(RecordCache* cache) {
    return cache->count_ > RecordCache::kKept ? cache->pop_oldest() : 0;
  }
  static bool has_place(const RecordCache& cache) { return cache.count_ != RecordCache::kCapacity; }

  // Returns an ended record, which is published as empty. `forgotten`: it is not needed for reports, so it is reused
  // first, while it is in the processor's cache.
  void give(RecordCache* cache, format::Ref ref, bool forgotten, DumpWriter& dump) {
    if (forgotten && cache != nullptr && cache->fresh_count_ < RecordCache::kBatch) {
      cache->fresh_[cache->fresh_count_++] = ref;
    } else if (cache == nullptr || cache->count_ == RecordCache::kCapacity) {
      give_shared(cache, ref, dump);
    } else {
      cache->ended_[(cache->first_ + cache->count_++) % RecordCache::kCapacity] = ref;
    }
  }

  // The cache's thread ends.
  void give_all(RecordCache* cache, DumpWriter& dump);

  // Not while other threads use this.
  void free_memory() { unused_.free_memory(); }

 private:
  // These take the lock and run on the tracker's own stack.
  CULPRIT_COLD format::Ref take_shared(DumpWriter& dump);
  CULPRIT_COLD format::Ref refill(RecordCache* cache, DumpWriter& dump);
  CULPRIT_COLD void give_shared(RecordCache* cache, format::Ref ref, DumpWriter& dump);
  format::Ref take_shared_here(DumpWriter& dump);
  format::Ref refill_here(RecordCache* cache, DumpWriter& dump);
  void give_shared_here(RecordCache* cache, format::Ref ref, DumpWriter& dump);
  format::Ref allocate(std::uint32_t count, DumpWriter& dump);
  bool take_run(RecordCache* cache, DumpWriter& dump);
  void take_unused(RecordCache* cache, std::uint32_t count, std::uint32_t least, DumpWriter& dump);
  bool fill_holes(DumpWriter& dump);
  void give_each(RecordCache* cache);
  void make_holes(DumpWriter& dump);
  bool make_hole(DumpWriter& dump);

  SpinLock lock_;
  UnusedRecords unused_;
  std::uint64_t allocated_;    // records
  std::uint32_t generation_;   // no record in a hole had a greater one
  std::uint32_t runs_in_use_;  // threads that got one
  bool keeps_pages_;           // the file system has no holes
};

}  // namespace culprit
