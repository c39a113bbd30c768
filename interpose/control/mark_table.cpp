#include "interpose/control/mark_table.h"

#include "interpose/base/hash.h"

namespace culprit {

using format::MarkKind;
using format::Ref;

// With the lock held.
void MarkTable::keep_time(const NotedMark& mark, DumpWriter& dump) {
  if (times_ == 0) times_ = dump.allocate_records(format::ChunkType::kMarkTimes, format::kKeptMarkTimes, nullptr);
  if (times_ == 0) return;
  auto* time = dump.at<format::MarkTimeRecord>(times_) + kept_times_ % format::kKeptMarkTimes;
  const std::uint32_t uses = static_cast<std::uint32_t>(kept_times_++ / format::kKeptMarkTimes) + 1;
  __atomic_store_n(&time->state, 0U, __ATOMIC_RELEASE);
  __atomic_thread_fence(__ATOMIC_RELEASE);  // a reader that sees a new field sees the cleared state
  time->mark = mark.record;
  time->time_ns = mark.time_ns;
  time->number = mark.number;
  __atomic_store_n(&time->state, uses == 0 ? 1U : uses, __ATOMIC_RELEASE);
}

NotedMark MarkTable::note(const char* name, std::uint32_t length, MarkKind kind, std::uint32_t thread,
                          std::uint64_t now_ns, bool counts, DumpWriter& dump) {
  SpinGuard guard(lock_);
  NotedMark noted;
  noted.record = find_or_make(name, length, kind, thread, now_ns, counts, dump);
  if (noted.record == 0) return noted;
  const auto* record = dump.at<format::MarkRecord>(noted.record);
  noted.time_ns = now_ns;
  noted.number = record->count;
  if (counts && (kind == MarkKind::kMark || kind == MarkKind::kMoment)) keep_time(noted, dump);
  return noted;
}

Ref MarkTable::find_or_make(const char* name, std::uint32_t length, MarkKind kind, std::uint32_t thread,
                            std::uint64_t now_ns, bool counts, DumpWriter& dump) {
  std::uint64_t key = hash_bytes(name, length, static_cast<std::uint64_t>(kind));
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
