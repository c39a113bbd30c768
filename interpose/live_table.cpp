#include "interpose/live_table.h"

#include <cstring>

namespace culprit {

using format::AllocationRecord;
using format::AllocationState;
using format::Ref;

namespace {

// Publishes a new state under the next generation, so that a live reader notices that the record changed under it.
void publish(AllocationRecord* record, AllocationState state, bool next_generation) {
  std::uint32_t generation = record->state >> format::kStateBits;
  if (next_generation) ++generation;
  __atomic_store_n(&record->state, generation << format::kStateBits | static_cast<std::uint32_t>(state),
                   __ATOMIC_RELEASE);
}

}  // namespace

Ref LiveTable::new_record(Shard& shard, DumpWriter& dump) {
  if (shard.free_head != 0) {
    Ref ref = shard.free_head;
    shard.free_head = dump.at<AllocationRecord>(ref)->stack;
    return ref;
  }
  if (shard.batch_left == 0) {
    shard.batch_next = dump.allocate_records(format::ChunkType::kAllocations, kBatch, nullptr);
    if (shard.batch_next == 0) return 0;
    shard.batch_left = kBatch;
  }
  Ref ref = shard.batch_next;
  shard.batch_next += sizeof(AllocationRecord) / format::kRefUnit;
  --shard.batch_left;
  return ref;
}

void LiveTable::release_record(Shard& shard, Ref ref, DumpWriter& dump) {
  auto* record = dump.at<AllocationRecord>(ref);
  publish(record, AllocationState::kEmpty, true);
  record->stack = shard.free_head;
  shard.free_head = ref;
}

HashIndex::Entry* LiveTable::look_up(Shard& shard, std::uint8_t space, std::uint64_t handle, std::uint8_t device) {
  HashIndex::Entry* elsewhere = nullptr;
  HashIndex::Entry* here = shard.index.find(handle, [&](HashIndex::Entry& entry) {
    if (entry.tag == tag_of(space, device)) return true;
    if (entry.tag >> 8 == space && elsewhere == nullptr) elsewhere = &entry;
    return false;
  });
  return here != nullptr ? here : elsewhere;
}

Ref LiveTable::add(const AllocationRecord& fields, DumpWriter& dump) {
  std::uint8_t space = space_of(fields.kind);
  Shard& shard = shard_of(space, fields.handle);
  SpinGuard guard(shard.lock);
  std::uint32_t tag = tag_of(space, fields.device);
  HashIndex::Entry* stale =
      shard.index.find(fields.handle, [&](const HashIndex::Entry& entry) { return entry.tag == tag; });
  if (stale != nullptr) {
    release_record(shard, stale->value, dump);
    shard.index.erase(stale);
  }
  Ref ref = new_record(shard, dump);
  if (ref == 0) return 0;
  if (!shard.index.insert(fields.handle, ref, tag)) {
    dump.stop(format::StopReason::kNoMemory, 0);
    release_record(shard, ref, dump);
    return 0;
  }
  auto* record = dump.at<AllocationRecord>(ref);
  std::memcpy(reinterpret_cast<char*>(record) + sizeof(record->state),
              reinterpret_cast<const char*>(&fields) + sizeof(fields.state), sizeof(fields) - sizeof(fields.state));
  publish(record, AllocationState::kLive, true);
  return ref;
}

Ref LiveTable::find(std::uint8_t space, std::uint64_t handle, std::uint8_t device, DumpWriter&) {
  Shard& shard = shard_of(space, handle);
  SpinGuard guard(shard.lock);
  HashIndex::Entry* entry = look_up(shard, space, handle, device);
  return entry == nullptr ? 0 : entry->value;
}

void LiveTable::begin_freeing(AllocationRecord* record) { publish(record, AllocationState::kFreeing, false); }

void LiveTable::put_back(Ref ref, DumpWriter& dump) {
  auto* record = dump.at<AllocationRecord>(ref);
  std::uint8_t space = space_of(record->kind);
  Shard& shard = shard_of(space, record->handle);
  SpinGuard guard(shard.lock);
  shard.index.insert(record->handle, ref, tag_of(space, record->device));
  publish(record, AllocationState::kLive, false);
}

void LiveTable::retire(Ref ref, DumpWriter& dump, const Ended* ended) {
  auto* record = dump.at<AllocationRecord>(ref);
  Shard& shard = shard_of(space_of(record->kind), record->handle);
  SpinGuard guard(shard.lock);
  release_record(shard, ref, dump);
  if (ended != nullptr) shard.ended[shard.ended_next++ % kRemembered] = *ended;
}

void LiveTable::rekey(Ref ref, std::uint64_t handle, bool indexed, DumpWriter& dump) {
  auto* record = dump.at<AllocationRecord>(ref);
  std::uint8_t space = space_of(record->kind);
  {
    Shard& shard = shard_of(space, record->handle);
    SpinGuard guard(shard.lock);
    HashIndex::Entry* entry =
        shard.index.find(record->handle, [&](const HashIndex::Entry& e) { return e.value == ref; });
    if (entry != nullptr) shard.index.erase(entry);
  }
  if (!indexed) return;
  Shard& shard = shard_of(space, handle);
  SpinGuard guard(shard.lock);
  record->handle = handle;
  shard.index.insert(handle, ref, tag_of(space, record->device));
}

Ref LiveTable::find_containing(std::uint8_t space, std::uint64_t address, DumpWriter& dump) {
  Ref found = 0;
  for (Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    shard.index.for_each([&](const HashIndex::Entry& entry) {
      if (entry.tag >> 8 != space || found != 0) return;
      const auto* record = dump.at<AllocationRecord>(entry.value);
      std::uint64_t size = record->bytes != 0 ? record->bytes : record->extra;
      if (address >= record->handle && address - record->handle < size) found = entry.value;
    });
    if (found != 0) break;
  }
  return found;
}

bool LiveTable::find_ended(std::uint8_t space, std::uint64_t handle, Ended* ended) {
  Shard& shard = shard_of(space, handle);
  SpinGuard guard(shard.lock);
  for (std::uint32_t i = 0; i < kRemembered; ++i) {
    const Ended& candidate = shard.ended[(shard.ended_next - 1 - i) % kRemembered];
    if (candidate.handle == handle && candidate.space == space) {
      *ended = candidate;
      return true;
    }
  }
  return false;
}

}  // namespace culprit
