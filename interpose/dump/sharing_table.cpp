#include "interpose/dump/sharing_table.h"

namespace culprit {

using format::Ref;
using format::SharingRecord;
using format::SharingRole;

// An unused record, else a new one, else that of the export that was freed first.
SharingRecord* SharingTable::slot_locked(DumpWriter& dump, int* index) {
  SharingRecord* oldest = nullptr;
  for (int i = 0; i < count_; ++i) {
    if (allocations_[i] != 0) continue;
    auto* record = dump.at<SharingRecord>(records_[i]);
    if (record->state != 0 && oldest != nullptr && oldest->ended_ns <= record->ended_ns) continue;
    *index = i;
    oldest = record;
    if (record->state == 0) return record;
  }
  if (count_ < kCapacity) {
    const Ref ref = dump.allocate_records(format::ChunkType::kSharings, 1, nullptr);
    if (ref != 0) {
      *index = count_;
      records_[count_++] = ref;
      return dump.at<SharingRecord>(ref);
    }
  }
  return oldest;
}

bool SharingTable::add(const SharingRecord& sharing, DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    if (allocations_[i] != sharing.allocation) continue;
    auto* known = dump.at<SharingRecord>(records_[i]);
    if (known->role != sharing.role || known->type != sharing.type || known->key != sharing.key) continue;
    add_counter(known->count, 1);
    return true;
  }
  int index = 0;
  SharingRecord* record = slot_locked(dump, &index);
  if (record == nullptr) return false;
  __atomic_store_n(&record->state, 0U, __ATOMIC_RELEASE);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  *record = sharing;
  record->count = 1;
  record->state = 0;
  if (++uses_[index] == 0) ++uses_[index];
  __atomic_store_n(&record->state, uses_[index], __ATOMIC_RELEASE);
  allocations_[index] = sharing.allocation;
  return true;
}

bool SharingTable::count_again(std::uint64_t key, SharingRole role, DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    if (allocations_[i] == 0) continue;
    auto* known = dump.at<SharingRecord>(records_[i]);
    if (known->key != key || known->role != role) continue;
    add_counter(known->count, 1);
    return true;
  }
  return false;
}

void SharingTable::end(Ref allocation, std::uint64_t now_ns, Ref stack, DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    if (allocations_[i] != allocation) continue;
    allocations_[i] = 0;
    auto* record = dump.at<SharingRecord>(records_[i]);
    if (record->role == SharingRole::kExport) {
      record->end_stack = stack;
      __atomic_store_n(&record->ended_ns, now_ns, __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(&record->state, 0U, __ATOMIC_RELEASE);
    }
  }
}

void SharingTable::note_mapped(Ref allocation, std::uint64_t bytes, DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    if (allocations_[i] != allocation) continue;
    auto* record = dump.at<SharingRecord>(records_[i]);
    if (record->role == SharingRole::kImport && record->bytes < bytes)
      __atomic_store_n(&record->bytes, bytes, __ATOMIC_RELAXED);
  }
}

}  // namespace culprit
