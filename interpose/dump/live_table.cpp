#include "interpose/dump/live_table.h"

#include <errno.h>

#include <cstring>

namespace culprit {

using format::AllocationRecord;
using format::AllocationState;
using format::Ref;

RecordIndex::Slot* LiveTable::look_up(Shard& shard, std::uint32_t space, std::uint64_t handle, std::uint8_t device,
                                      const DumpWriter& dump) {
  RecordIndex::Slot* here =
      shard.index.find(handle, space, dump, [&](const AllocationRecord& record) { return record.device == device; });
  return here != nullptr ? here : shard.index.find(handle, space, dump).slot;
}

void LiveTable::repair_left_shard(DumpWriter& dump) {
  SpinLock* left = thread_locks.shard;
  thread_locks.shard = nullptr;
  if (left == nullptr || !left->is_held_by(thread_locks.thread_id)) return;
  for (Shard& shard : shards_) {
    if (&shard.lock != left) continue;
    shard.index.repair([&](RecordIndex::Slot slot) {
      const auto* record = dump.at<AllocationRecord>(RecordIndex::ref_of(slot));
      const std::uint32_t space = space_of_slot(slot, dump);
      return format::state_of(record->state) == AllocationState::kLive && space <= 0xffff &&
             static_cast<std::uint8_t>(space) == space_of(record->kind);
    });
  }
  left->unlock();
}

Ref LiveTable::drop_stale(Ref ref, Ref stale, bool locked, DumpWriter& dump, ThreadRecords* own) {
  if (stale == 0 && locked) dump.stop(format::StopReason::kNoMemory, 0);
  retire(stale == 0 ? ref : stale, dump, {}, own);
  return stale == 0 ? 0 : ref;
}

void LiveTable::index_spare(YoungRecord record, DumpWriter& dump, ThreadRecords* own) {
  const int saved_errno = errno;
  young_.note_closed(&own->young(static_cast<std::uint8_t>(record.tag >> 8)));
  add_to_index(record, dump, own);
  errno = saved_errno;
}

Ref LiveTable::find(std::uint8_t space, std::uint64_t handle, std::uint8_t device, DumpWriter& dump) {
  const std::uint32_t here = space_here(space);
  Ref ref = find_indexed(here, handle, device, dump);
  if (ref != 0 || !may_be_young(space) || !young_.in_use()) return ref;
  fetch_young(here, handle, dump);
  return find_indexed(here, handle, device, dump);
}

Ref LiveTable::find_indexed(std::uint32_t space, std::uint64_t handle, std::uint8_t device, DumpWriter& dump) {
  Shard& shard = shard_of(handle);
  ShardGuard guard(shard, dump);
  if (!guard.locked()) return 0;
  const RecordIndex::Slot* slot = look_up(shard, space, handle, device, dump);
  return slot == nullptr ? 0 : RecordIndex::ref_of(*slot);
}

void LiveTable::put_back(Ref ref, DumpWriter& dump) {
  auto* record = dump.at<AllocationRecord>(ref);
  const std::uint32_t space = space_here(space_of(record->kind));
  Shard& shard = shard_of(record->handle);
  ShardGuard guard(shard, dump);
  if (guard.locked()) shard.index.insert(record->handle, space, ref);
  publish(record, AllocationState::kLive, false);
}

void LiveTable::rekey(Ref ref, std::uint64_t handle, bool indexed, DumpWriter& dump) {
  auto* record = dump.at<AllocationRecord>(ref);
  const std::uint32_t space = space_here(space_of(record->kind));
  {
    Shard& shard = shard_of(record->handle);
    ShardGuard guard(shard, dump);
    if (!guard.locked()) return;
    RecordIndex::Slot* slot =
        shard.index.find(record->handle, space, dump, [&](const AllocationRecord& other) { return &other == record; });
    if (slot != nullptr) shard.index.erase(slot);
  }
  if (!indexed) return;
  Shard& shard = shard_of(handle);
  ShardGuard guard(shard, dump);
  if (!guard.locked()) return;
  record->handle = handle;
  shard.index.insert(handle, space, ref);
}

Ref LiveTable::find_containing(std::uint8_t space, std::uint64_t address, DumpWriter& dump) {
  fetch_all_young(dump);
  const std::uint32_t here = space_here(space);
  Ref found = 0;
  for (Shard& shard : shards_) {
    ShardGuard guard(shard, dump);
    if (!guard.locked()) continue;
    shard.index.for_each([&](RecordIndex::Slot slot) {
      if (found != 0 || space_of_slot(slot, dump) != here) return;
      const auto* record = dump.at<AllocationRecord>(RecordIndex::ref_of(slot));
      std::uint64_t size = record->bytes != 0 ? record->bytes : record->extra;
      if (address >= record->handle && address - record->handle < size) found = RecordIndex::ref_of(slot);
    });
    if (found != 0) break;
  }
  return found;
}

bool LiveTable::find_ended(std::uint8_t space, std::uint64_t handle, AllocationRecord* found, EndedBy* by,
                           DumpWriter& dump) {
  bool any = false;
  dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    std::uint32_t before = __atomic_load_n(&record.state, __ATOMIC_ACQUIRE);
    AllocationRecord copy = record;
    if (copy.handle != handle || space_of(copy.kind) != space || (copy.flags & format::kFlagEnded) == 0) return;
    auto state = format::state_of(before);
    if (state != AllocationState::kEmpty || __atomic_load_n(&record.state, __ATOMIC_ACQUIRE) != before) return;
    // Two live allocations cannot share a handle: the one made last is the one ended last.
    if (any && copy.time_ns <= found->time_ns) return;
    any = true;
    *found = copy;
    *by = {copy.ended.stack, copy.ended.thread, (copy.flags & format::kFlagTornDown) != 0, true};
  });
  return any;
}

}  // namespace culprit
