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
  struct {
    StackRecord record;
    std::uint64_t frames[kMaxStackDepth];
  } entry;
  entry.record = {};
  entry.record.frame_count = static_cast<std::uint32_t>(stack.count);
  entry.record.flags = stack.truncated ? static_cast<std::uint32_t>(format::kStackTruncated) : 0;
  for (int i = 0; i < stack.count; ++i) {
    std::uint64_t exact = stack.frames[i] & format::kFrameExact;
    entry.frames[i] = modules.frame_of(stack.frames[i] & ~format::kFrameExact) | exact;
  }
  std::uint64_t frames_key = hash_words(entry.frames, stack.count, entry.record.flags);
  {
    SpinGuard guard(frames_lock_);
    HashIndex::Entry* known = frames_.find(frames_key, [](const HashIndex::Entry&) { return true; });
    if (known != nullptr) {
      ref = known->value;
    } else {
      ref = dump.append(format::ChunkType::kStacks, &entry.record, sizeof(StackRecord), entry.frames,
                        sizeof(std::uint64_t) * static_cast<std::uint64_t>(stack.count));
      if (ref != 0) frames_.insert(frames_key, ref, 0);
    }
  }
  if (ref != 0) {
    SpinGuard guard(shard.lock);
    // Two threads may get here with the same stack: the second entry is never found and does no harm.
    shard.index.insert(key, ref, 0);
  }
  return ref;
}

void StackTable::forget_addresses() {
  for (Shard& shard : raw_) {
    SpinGuard guard(shard.lock);
    shard.index.clear();
  }
}

}  // namespace culprit
