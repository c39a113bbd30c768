#include "interpose/stacks/stack_table.h"

#include <cstring>
#include <initializer_list>

namespace culprit {

using format::Ref;
using format::StackRecord;

bool StackTable::look_up(Shard& shard, std::uint64_t key, Ref* ref) {
  SpinGuard guard(shard.lock);
  HashIndex::Entry* entry = shard.index.find(key);
  if (entry == nullptr) return false;
  *ref = entry->value;
  space_.mark(*ref);  // under the lock that sweep() takes too
  return true;
}

Ref StackTable::intern(const RawStack& stack, ModuleTable& modules, DumpWriter& dump, bool* is_new) {
  // The whole stack is represented by 64 bits of hash: among a million stacks the chance of one collision is below 1 in
  // 10^7.
  std::uint64_t key = hash_words(stack.frames, stack.count, stack.truncated ? 1 : 0);
  Shard& shard = raw_[key % kShards];
  Ref ref = 0;
  if (is_new != nullptr) *is_new = false;
  if (look_up(shard, key, &ref)) return ref;
  if (is_new != nullptr) *is_new = true;

  modules.refresh(dump);
  std::uint64_t frames[kMaxStackDepth];
  for (int i = 0; i < stack.count; ++i) {
    std::uint64_t exact = stack.frames[i] & format::kFrameExact;
    frames[i] = modules.frame_of(stack.frames[i] & ~format::kFrameExact) | exact;
  }
  ref = intern_frames(frames, stack.count, stack.truncated ? static_cast<std::uint32_t>(format::kStackTruncated) : 0,
                      dump);
  // Merged stacks are few, but the stacks that are merged into them are many. A sweep that began since has seen the
  // mark.
  if (ref != 0 && (dump.at<StackRecord>(ref)->flags & format::kStackMerged) == 0) {
    SpinGuard guard(shard.lock);
    // Two threads may get here with the same stack: the second entry is never found and does no harm.
    shard.index.insert(key, ref, 0);
  }
  return ref;
}

Ref StackTable::known_locked(std::uint64_t key) {
  HashIndex::Entry* known = frames_.find(key);
  if (known == nullptr) return 0;
  space_.mark(known->value);
  return known->value;
}

Ref StackTable::store_locked(std::uint64_t key, const std::uint64_t* frames, int count, std::uint32_t flags,
                             PackedSpace::Want want, DumpWriter& dump) {
  const std::uint64_t frame_bytes = sizeof(std::uint64_t) * static_cast<std::uint64_t>(count);
  const auto units =
      static_cast<std::uint32_t>((sizeof(StackRecord) + frame_bytes + format::kRefUnit - 1) / format::kRefUnit);
  const Ref ref = space_.take(format::ChunkType::kStacks, units, want, dump);
  if (ref == 0) return 0;
  StackRecord record = {};
  record.frame_count = static_cast<std::uint32_t>(count);
  record.flags = flags;
  record.born = dump.header()->stack_sweeps;
  record.check = format::stack_check(frames, record.frame_count, flags);
  auto* place = dump.at<unsigned char>(ref);
  std::memcpy(place + sizeof(record), frames, frame_bytes);
  if (count % 2 != 0) std::memset(place + sizeof(record) + frame_bytes, 0, sizeof(std::uint64_t));
  std::memcpy(place, &record, sizeof(record));
  // Without an entry the stack is written again the next time.
  frames_.insert(key, ref, 0);
  return ref;
}

Ref StackTable::intern_frames(const std::uint64_t* frames, int count, std::uint32_t flags, DumpWriter& dump) {
  std::uint64_t key = hash_words(frames, count, flags);
  SpinGuard guard(frames_lock_);
  if (const Ref known = known_locked(key)) return known;
  if (const Ref stored = store_locked(key, frames, count, flags, PackedSpace::Want::kNormal, dump)) return stored;
  return merge_locked(frames, count, dump);
}

Ref StackTable::merge_locked(const std::uint64_t* frames, int count, DumpWriter& dump) {
  add_counter(dump.header()->merged_stacks, 1);
  const std::uint32_t flags = format::kStackTruncated | format::kStackMerged;
  // The stack without frames first, while there is room for it.
  const std::uint64_t none = hash_words(frames, 0, flags);
  if (known_locked(none) == 0) store_locked(none, frames, 0, flags, PackedSpace::Want::kLast, dump);
  for (int kept : {8, 4, 1, 0}) {
    if (kept > count) continue;
    const std::uint64_t key = hash_words(frames, kept, flags);
    if (const Ref known = known_locked(key)) return known;
    if (const Ref stored = store_locked(key, frames, kept, flags, PackedSpace::Want::kLast, dump)) return stored;
  }
  return 0;
}

void StackTable::lock_all() {
  for (Shard& shard : raw_) shard.lock.lock();
  frames_lock_.lock();
}

void StackTable::unlock_all() {
  frames_lock_.unlock();
  for (Shard& shard : raw_) shard.lock.unlock();
}

void StackTable::begin_marking() {
  lock_all();
  space_.clear_marks();
  unlock_all();
}

void StackTable::free_unmarked(DumpWriter& dump) {
  format::Header* header = dump.header();
  __atomic_fetch_add(&header->stack_sweeps, 1U, __ATOMIC_RELEASE);
  std::uint64_t stacks = 0;
  std::uint64_t calls = 0;
  space_.sweep([&](Ref ref) {
    auto* record = dump.at<StackRecord>(ref);
    ++stacks;
    calls += record->allocations;
    record->check = ~record->check | 1;
    __atomic_fetch_or(&record->flags, static_cast<std::uint32_t>(format::kStackFree), __ATOMIC_RELEASE);
  });
  add_counter(header->reused_stacks, stacks);
  add_counter(header->reused_calls, calls);
  if (stacks == 0) return;
  auto stays = [&](const HashIndex::Entry& entry) { return space_.is_record(entry.value); };
  for (Shard& shard : raw_) shard.index.filter(stays);
  frames_.filter(stays);
}

void StackTable::free_memory() {
  for (Shard& shard : raw_) shard.index.free_memory();
  frames_.free_memory();
  space_.free_memory();
}

void StackTable::forget_addresses() {
  for (Shard& shard : raw_) {
    SpinGuard guard(shard.lock);
    shard.index.clear();
  }
}

}  // namespace culprit
