#include "interpose/control/mark_table.h"

#include "interpose/base/hash.h"

namespace culprit {

using format::MarkKind;
using format::Ref;

Ref MarkTable::note(const char* name, std::uint32_t length, MarkKind kind, std::uint32_t thread, std::uint64_t now_ns,
                    bool counts, DumpWriter& dump) {
  std::uint64_t key = hash_bytes(name, length, static_cast<std::uint64_t>(kind));
  SpinGuard guard(lock_);
  HashIndex::Entry* entry = names_.find(key);
  if (entry != nullptr) {
    auto* known = dump.at<format::MarkRecord>(entry->value);
    if (counts) {
      add_counter(known->count, 1);
      __atomic_store_n(&known->last_ns, now_ns, __ATOMIC_RELAXED);
    }
    return entry->value;
  }
  if (names_.size() == kMostNames) return 0;
  Ref text = dump.add_string(name, length);
  Ref ref = text == 0 ? 0 : dump.allocate_records(format::ChunkType::kMarks, 1, nullptr);
  if (ref == 0 || !names_.insert(key, ref, 0)) return 0;
  auto* record = dump.at<format::MarkRecord>(ref);
  record->name = text;
  record->kind = kind;
  record->thread = thread;
  record->first_ns = record->last_ns = now_ns;
  record->count = 1;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  return ref;
}

Ref MarkTable::label(Ref mark, Ref range, DumpWriter& dump) {
  if (mark == 0 && range == 0) return 0;
  std::uint64_t key = std::uint64_t{mark} << 32 | range;
  SpinGuard guard(lock_);
  HashIndex::Entry* entry = labels_.find(key);
  if (entry != nullptr) return entry->value;
  if (labels_.size() == kMostLabels) return 0;
  Ref ref = dump.allocate_records(format::ChunkType::kLabels, 1, nullptr);
  if (ref == 0 || !labels_.insert(key, ref, 0)) return 0;
  auto* record = dump.at<format::LabelRecord>(ref);
  record->mark = mark;
  record->range = range;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  return ref;
}

}  // namespace culprit
