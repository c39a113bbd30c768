#include "interpose/stack_table.h"

namespace culprit {

using format::Ref;
using format::StackRecord;

bool StackTable::look_up(Shard& shard, std::uint64_t key, Ref* ref) {
  SpinGuard guard(shard.lock);
  HashIndex::Entry* entry = shard.index.find(key, [](const HashIndex::Entry&) { return true; });
  if (entry == nullptr) return false;
  *ref = entry->value;
  return true;
}

Ref StackTable::intern(const RawStack& stack, ModuleTable& modules, DumpWriter& dump, bool* is_new) {
  // 64 bits of hash stand for the whole stack: among a million stacks the chance of one collision is below 1 in 10^7.
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
  if (ref != 0) {
    SpinGuard guard(shard.lock);
    // Two threads may get here with the same stack: the second entry is never found and does no harm.
    shard.index.insert(key, ref, 0);
  }
  return ref;
}

Ref StackTable::intern_frames(const std::uint64_t* frames, int count, std::uint32_t flags, DumpWriter& dump) {
  StackRecord record = {};
  record.frame_count = static_cast<std::uint32_t>(count);
  record.flags = flags;
  std::uint64_t key = hash_words(frames, count, flags);
  SpinGuard guard(frames_lock_);
  HashIndex::Entry* known = frames_.find(key, [](const HashIndex::Entry&) { return true; });
  if (known != nullptr) return known->value;
  Ref ref = dump.append(format::ChunkType::kStacks, &record, sizeof(record), frames,
                        sizeof(std::uint64_t) * static_cast<std::uint64_t>(count));
  if (ref != 0) frames_.insert(key, ref, 0);
  return ref;
}

void StackTable::free_memory() {
  for (Shard& shard : raw_) shard.index.free_memory();
  frames_.free_memory();
}

void StackTable::forget_addresses() {
  for (Shard& shard : raw_) {
    SpinGuard guard(shard.lock);
    shard.index.clear();
  }
}

}  // namespace culprit
