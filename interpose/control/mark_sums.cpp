#include "interpose/control/mark_sums.h"

#include <cstring>

#include "interpose/base/hash.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/format/device_bytes.h"
#include "interpose/format/live_share.h"
#include "interpose/process/process.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::AllocationRecord;
using format::MarkSumShare;
using format::MarkSumsRecord;
using format::Ref;

// The sums while they are added up: a hash table in private memory.
struct MarkSums::Sums {
  static constexpr std::uint32_t kPlaces = 16384;  // a power of two
  static constexpr std::uint32_t kMost = 12288;    // shares: 73 blocks

  std::uint32_t used;
  std::uint64_t other_bytes;
  std::uint64_t other_count;
  MarkSumShare places[kPlaces];

  void add(const AllocationRecord& record) {
    const std::uint64_t key = std::uint64_t{record.stack} << 32 | std::uint64_t{record.api} << 16 |
                              std::uint64_t{static_cast<std::uint8_t>(record.kind)} << 8 | record.device;
    std::uint32_t at = static_cast<std::uint32_t>(quick_hash(key) >> 40) % kPlaces;
    while (places[at].count != 0 && !is_of(places[at], record)) at = (at + 1) % kPlaces;
    MarkSumShare& place = places[at];
    if (place.count == 0) {
      if (used == kMost) {
        other_bytes += record.bytes;
        ++other_count;
        return;
      }
      ++used;
      place.stack = record.stack;
      place.api = record.api;
      place.kind = record.kind;
      place.device = record.device;
    }
    place.bytes += record.bytes;
    ++place.count;
  }

 private:
  static bool is_of(const MarkSumShare& share, const AllocationRecord& record) {
    return share.stack == record.stack && share.api == record.api && share.kind == record.kind &&
           share.device == record.device;
  }
};

namespace {

// Waits for a breakdown that another thread takes, and for the end of a collection of stacks: some milliseconds.
bool lock_breakdowns(Process& process) {
  constexpr int kTries = 2000;
  constexpr std::uint32_t kMicroseconds = 500;
  for (int i = 0; i < kTries; ++i) {
    if (breakdown_lock_of(process).try_lock()) return true;
    sleep_microseconds(kMicroseconds);
  }
  return false;
}

// Copies a record that its owner may change at the same time. Returns false when it is not live, or was ended
// meanwhile.
#if defined(__clang__)
__attribute__((noinline, disable_sanitizer_instrumentation))
#else
__attribute__((noinline, no_sanitize("thread")))
#endif
bool copy_live(const AllocationRecord& from, AllocationRecord* to) {
  const std::uint32_t before = __atomic_load_n(&from.state, __ATOMIC_ACQUIRE);
  if (!is_live_state(before)) return false;
  to->stack = from.stack;
  to->bytes = from.bytes;
  to->time_ns = from.time_ns;
  to->api = from.api;
  to->device = from.device;
  to->kind = from.kind;
  to->flags = from.flags;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  const std::uint32_t after = __atomic_load_n(&from.state, __ATOMIC_RELAXED);
  return is_live_state(after) && before >> format::kStateBits == after >> format::kStateBits;
}

}  // namespace

// The block after `block` of a slot, or its first one; makes it where there is none. nullptr: no room.
MarkSumsRecord* MarkSums::block_after(MarkSumsRecord* block, std::uint32_t slot, DumpWriter& dump) {
  Ref* place = block == nullptr ? &first_[slot] : &block->next;
  if (*place == 0) *place = dump.allocate_records(format::ChunkType::kMarkSums, 1, nullptr);
  return *place == 0 ? nullptr : dump.at<MarkSumsRecord>(*place);
}

bool MarkSums::keep(Process& process, const NotedMark& mark, const Sums& sums, std::uint64_t took_ns) {
  DumpWriter& dump = process.dump;
  const std::uint32_t slot = taken_ % kSlots;
  MarkSumsRecord* first = block_after(nullptr, slot, dump);
  if (first == nullptr) return false;
  std::uint32_t blocks = 1;
  std::uint64_t other_bytes = sums.other_bytes, other_count = sums.other_count;
  MarkSumsRecord* block = first;
  block->used = 0;
  const std::uint32_t number = taken_ + 1;
  bool full = false;
  for (const MarkSumShare& share : sums.places) {
    if (share.count == 0) continue;
    if (!full && block->used == format::kMarkSumShares) {
      MarkSumsRecord* more = block_after(block, slot, dump);
      full = more == nullptr;
      if (!full) {
        block = more;
        block->used = 0;
        block->block = blocks++;
      }
    }
    if (full) {
      other_bytes += share.bytes;
      other_count += share.count;
    } else {
      block->shares[block->used++] = share;
    }
  }
  first->mark = mark.record;
  first->time_ns = mark.time_ns;
  first->number = mark.number;
  first->block = 0;
  first->blocks = blocks;
  first->other_bytes = other_bytes;
  first->other_count = other_count;
  first->took_ns = took_ns;
  // The first block is published last: a reader that sees it sees the others.
  MarkSumsRecord* later = first;
  for (std::uint32_t i = 1; i < blocks; ++i) {
    later = dump.at<MarkSumsRecord>(later->next);
    __atomic_store_n(&later->state, number, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&first->state, number, __ATOMIC_RELEASE);
  taken_ = number;
  // The oldest are given up: their slot is the next one to be written. The first block is taken back first.
  Ref old = first_[taken_ % kSlots];
  while (old != 0) {
    auto* record = dump.at<MarkSumsRecord>(old);
    __atomic_store_n(&record->state, 0U, __ATOMIC_RELEASE);
    old = record->next;
  }
  return true;
}

bool MarkSums::take(Process& process, const NotedMark& mark) {
  int error = 0;
  auto* sums = static_cast<Sums*>(map_private(sizeof(Sums), &error));
  if (sums == nullptr) return false;
  bool kept = false;
  // Like a breakdown: no stack is freed while its number is in the private sums only (stack_collection.h).
  if (lock_breakdowns(process)) {
    const std::uint64_t start = now_ns(process);
    process.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& one) {
      AllocationRecord record = {};
      if (copy_live(one, &record) && record.time_ns < mark.time_ns && counts_at_mark(record)) sums->add(record);
    });
    kept = keep(process, mark, *sums, now_ns(process) - start);
    breakdown_lock_of(process).unlock();
  }
  unmap_private(sums, sizeof(Sums));
  return kept;
}

bool MarkSums::keep_nothing(Process& process, const NotedMark& mark) {
  int error = 0;
  auto* sums = static_cast<Sums*>(map_private(sizeof(Sums), &error));
  if (sums == nullptr) return false;
  const bool kept = keep(process, mark, *sums, 0);
  unmap_private(sums, sizeof(Sums));
  return kept;
}

}  // namespace culprit
