#include "interpose/dump/throw_table.h"

#include <cstring>

#include "interpose/base/utf8.h"

namespace culprit {

using format::Ref;
using format::ThrowRecord;

namespace {
constexpr std::size_t kMostType = 4096;
constexpr std::size_t kMostWhat = 512;
Ref store_text(const char* text, std::size_t most, DumpWriter& dump) {
  return text == nullptr ? 0 : dump.add_string(text, length_up_to(text, most));
}
}  // namespace

std::uint64_t ThrowTable::key_of(const Throw& thrown) {
  std::uint64_t words[] = {thrown.stack, thrown.catch_stack, thrown.flags};
  std::uint64_t seed = thrown.type == nullptr ? 0 : hash_bytes(thrown.type, std::strlen(thrown.type), 1);
  return hash_words(words, 3, seed);
}

Ref ThrowTable::count_locked(std::uint64_t key, const Throw& thrown, DumpWriter& dump) {
  HashIndex::Entry* entry = index_.find(key);
  if (entry == nullptr) return 0;
  auto* record = dump.at<ThrowRecord>(entry->value);
  add_counter(record->count, 1);
  __atomic_store_n(&record->last_ns, thrown.time_ns, __ATOMIC_RELAXED);
  return entry->value;
}

Ref ThrowTable::count(const Throw& thrown, DumpWriter& dump) {
  SpinGuard guard(lock_);
  return count_locked(key_of(thrown), thrown, dump);
}

Ref ThrowTable::add(const Throw& thrown, const char* what, DumpWriter& dump) {
  {
    // Before the texts are stored: new throws must not grow the dump when the table is full.
    SpinGuard guard(lock_);
    if (index_.size() == kCapacity) return count_locked(key_of(thrown), thrown, dump);
  }
  // Outside the lock: a hang while reading an invalid text must not block other threads.
  Ref type = store_text(thrown.type, kMostType, dump);
  Ref text = store_text(what, kMostWhat, dump);
  std::uint64_t key = key_of(thrown);
  SpinGuard guard(lock_);
  Ref ref = count_locked(key, thrown, dump);
  if (ref != 0) return ref;  // another thread added it meanwhile
  if (index_.size() == kCapacity) return 0;
  ref = dump.allocate_records(format::ChunkType::kThrows, 1, nullptr);
  if (ref == 0 || !index_.insert(key, ref, 0)) return 0;
  auto* record = dump.at<ThrowRecord>(ref);
  *record = {};
  record->type = type;
  record->what = text;
  record->stack = thrown.stack;
  record->catch_stack = thrown.catch_stack;
  record->thread = thrown.thread;
  record->count = 1;
  record->first_ns = record->last_ns = thrown.time_ns;
  record->flags = thrown.flags;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  return ref;
}

}  // namespace culprit
