#include "interpose/dump/event_tables.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "interpose/base/store_release.h"
#include "interpose/system/os.h"
#include "interpose/system/process_names.h"
#include "interpose/system/restrictions.h"

namespace culprit {

using format::ErrorRecord;
using format::Ref;
using format::ReleaseRecord;
using format::ThreadRecord;

Ref ErrorTable::add(const ErrorRecord& error, DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    auto* known = dump.at<ErrorRecord>(records_[i]);
    if (known->type == error.type && known->api == error.api && known->code == error.code &&
        known->stack == error.stack && known->allocation_stack == error.allocation_stack &&
        known->free_stack == error.free_stack && known->kind == error.kind) {
      known->last_ns = error.last_ns;
      add_counter(known->count, 1);
      return records_[i];
    }
  }
  if (count_ == kCapacity) return 0;
  Ref ref = dump.allocate_records(format::ChunkType::kErrors, 1, nullptr);
  if (ref == 0) return 0;
  auto* record = dump.at<ErrorRecord>(ref);
  *record = error;
  record->count = 1;
  record->state = 0;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  records_[count_++] = ref;
  return ref;
}

Ref FailedCallTable::add(const format::FailedCallRecord& call, DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    auto* known = dump.at<format::FailedCallRecord>(records_[i]);
    if (known->stack == call.stack && known->api == call.api && known->code == call.code &&
        known->flags == call.flags) {
      known->last_ns = call.last_ns;
      add_counter(known->count, 1);
      return records_[i];
    }
  }
  if (count_ == kCapacity) return 0;
  Ref ref = dump.allocate_records(format::ChunkType::kFailedCalls, 1, nullptr);
  if (ref == 0) return 0;
  auto* record = dump.at<format::FailedCallRecord>(ref);
  *record = call;
  record->count = 1;
  record->state = 0;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  records_[count_++] = ref;
  return ref;
}

namespace {

std::uint32_t add_up_to_most(std::uint32_t left, std::uint32_t right) {
  return right > ~std::uint32_t{0} - left ? ~std::uint32_t{0} : left + right;
}

}  // namespace

format::CallChargeRecord* CallChargeTable::find_locked(const format::CallChargeRecord& like, std::uint32_t context,
                                                       DumpWriter& dump) {
  for (int i = 0; i < count_; ++i) {
    auto* known = dump.at<format::CallChargeRecord>(records_[i]);
    if (known->state != 0 && known->stack == like.stack && known->api == like.api && known->device == like.device &&
        known->what == like.what && known->context == context)
      return known;
  }
  return nullptr;
}

void CallChargeTable::end_locked(format::CallChargeRecord* charge, DumpWriter& dump) {
  if (format::CallChargeRecord* ended = find_locked(*charge, format::kNoIndex, dump)) {
    __atomic_fetch_add(&ended->bytes, charge->bytes, __ATOMIC_RELAXED);
    add_counter(ended->count, charge->count);
    ended->last_ns = charge->last_ns;
    ended->made = add_up_to_most(ended->made, charge->made);
    ended->live = add_up_to_most(ended->live, charge->live);
    if (charge->most_live > ended->most_live) ended->most_live = charge->most_live;
    __atomic_store_n(&charge->state, 0U, __ATOMIC_RELEASE);
  } else {
    charge->context = format::kNoIndex;
  }
}

bool CallChargeTable::add(const format::CallChargeRecord& charge, DumpWriter& dump) {
  SpinGuard guard(lock_);
  if (format::CallChargeRecord* known = find_locked(charge, charge.context, dump)) {
    __atomic_fetch_add(&known->bytes, charge.bytes, __ATOMIC_RELAXED);
    known->last_ns = charge.last_ns;
    add_counter(known->count, 1);
    return true;
  }
  return insert_locked(charge, dump);
}

bool CallChargeTable::count_made(const format::CallChargeRecord& like, DumpWriter& dump) {
  SpinGuard guard(lock_);
  format::CallChargeRecord* charge = find_locked(like, like.context, dump);
  if (charge == nullptr) {
    if (!insert_locked(like, dump)) return false;
    charge = find_locked(like, like.context, dump);
  }
  charge->made = add_up_to_most(charge->made, 1);
  charge->live = add_up_to_most(charge->live, 1);
  if (charge->live > charge->most_live) charge->most_live = charge->live;
  return true;
}

void CallChargeTable::count_destroyed(const format::CallChargeRecord& like, DumpWriter& dump) {
  SpinGuard guard(lock_);
  format::CallChargeRecord* charge = find_locked(like, like.context, dump);
  if (charge == nullptr) charge = find_locked(like, format::kNoIndex, dump);  // its context ended
  if (charge != nullptr && charge->live != 0) --charge->live;
}

// `count` is 1 if the call took memory.
bool CallChargeTable::insert_locked(const format::CallChargeRecord& charge, DumpWriter& dump) {
  format::CallChargeRecord* record = nullptr;
  for (int i = 0; i < count_ && record == nullptr; ++i) {
    auto* known = dump.at<format::CallChargeRecord>(records_[i]);
    if (known->state == 0) record = known;
  }
  if (record == nullptr) {
    if (count_ == kCapacity) return false;
    Ref ref = dump.allocate_records(format::ChunkType::kCallCharges, 1, nullptr);
    if (ref == 0) return false;
    records_[count_++] = ref;
    record = dump.at<format::CallChargeRecord>(ref);
  }
  *record = charge;
  record->count = charge.bytes != 0 ? 1 : 0;
  record->state = 0;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  return true;
}

void CancelTable::add(const Cancel& cancel) {
  SpinGuard guard(lock_);
  cancels_[next_++ % kCapacity] = cancel;
}

bool CancelTable::take(pthread_t thread, Cancel* cancel) {
  SpinGuard guard(lock_);
  for (Cancel& known : cancels_) {
    if (known.time_ns == 0 || pthread_equal(known.thread, thread) == 0) continue;
    *cancel = known;
    known = {};
    return true;
  }
  return false;
}

Ref EvidenceTable::intern(const format::EvidenceRecord& evidence, DumpWriter& dump) {
  std::uint64_t words[] = {
      evidence.error, evidence.thrown, evidence.failed_call,
      std::uint64_t{evidence.thrown_owner} << 32 | std::uint64_t{evidence.failed_call_owner} << 8 | evidence.flags};
  std::uint64_t key = hash_words(words, 4, 0);
  SpinGuard guard(lock_);
  HashIndex::Entry* entry = index_.find(key);
  if (entry != nullptr) return entry->value;
  Ref ref = index_.size() == kCapacity ? 0 : dump.allocate_records(format::ChunkType::kEvidence, 1, nullptr);
  if (ref == 0 || !index_.insert(key, ref, 0)) {
    add_counter(dump.header()->dropped_others, 1);
    return 0;
  }
  auto* record = dump.at<format::EvidenceRecord>(ref);
  *record = evidence;
  record->state = 0;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  return ref;
}

namespace {

std::uint64_t key_of(const ReleaseRecord& release) {
  std::uint64_t words[] = {release.stack,  release.teardown_stack,
                           release.device, static_cast<std::uint64_t>(release.kind),
                           release.api,    std::uint64_t{release.label} << 32 | release.evidence,
                           release.name};
  return hash_words(words, 7, 0);
}

}  // namespace

bool ReleaseTable::add(const ReleaseRecord& added, DumpWriter& dump) {
  ReleaseRecord release = added;
  std::uint64_t key = key_of(release);
  SpinGuard guard(lock_);
  HashIndex::Entry* entry = index_.find(key);
  if (entry == nullptr && index_.size() >= kCapacity) {
    release.stack = release.teardown_stack = release.label = release.evidence = release.name = 0;
    add_counter(dump.header()->merged_stacks, 1);
    key = key_of(release);
    entry = index_.find(key);
  }
  if (entry == nullptr) {
    Ref ref = dump.allocate_records(format::ChunkType::kReleases, 1, nullptr);
    if (ref == 0 || !index_.insert(key, ref, 0)) return false;
    auto* record = dump.at<ReleaseRecord>(ref);
    *record = release;
    record->state = 0;
    __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
    return true;
  }
  auto* record = dump.at<ReleaseRecord>(entry->value);
  add_counter(record->count, release.count);
  add_counter(record->bytes, release.bytes);
  if (release.first_ns < record->first_ns) record->first_ns = release.first_ns;
  if (release.last_ns > record->last_ns) record->last_ns = release.last_ns;
  record->teardown_ns = release.teardown_ns;
  return true;
}

namespace {

// An empty name is left as it is: it could not be read.
void store_name(ThreadRecord* record, const char* name) {
  for (int i = 0; i < 16 && name[0] != '\0'; ++i) record->name[i] = name[i];
}

}  // namespace

namespace {

// No name was read, or given by the program.
bool has_no_name(const ThreadRecord& record) {
  constexpr char kNothing[sizeof(record.name)] = {};
  return std::memcmp(record.name, kNothing, sizeof(kNothing)) == 0;
}

}  // namespace

void refresh_thread_name(ThreadRecord* record, bool quick) {
  if (record->name[0] == 0 && !has_no_name(*record)) return;  // the program gave one
  char name[16] = {};
  if (quick ? quick_thread_name(name) : thread_name(0, name, sizeof(name))) store_name(record, name);
}

void ThreadTable::name_if_due(std::uint32_t index, std::uint64_t now_ns, DumpWriter& dump) {
  ThreadRecord* thread = record(index, dump);
  if (thread != nullptr && has_no_name(*thread) && now_ns - thread->first_seen_ns >= kShortNs)
    refresh_thread_name(thread);
}

void ThreadTable::name_the_running(DumpWriter& dump) {
  const std::uint32_t count = __atomic_load_n(&next_, __ATOMIC_ACQUIRE);
  for (std::uint32_t index = 0; index < count; ++index) {
    ThreadRecord* thread = record(index, dump);
    if (thread == nullptr || thread->state != format::ThreadState::kAlive || !has_no_name(*thread)) continue;
    char name[16] = {};
    if (thread_name(thread->tid, name, sizeof(name))) store_name(thread, name);
  }
}

ThreadRecord* ThreadTable::record(std::uint32_t index, DumpWriter& dump) {
  if (index >= kCapacity) return nullptr;
  Ref page = __atomic_load_n(&pages_[index / kPage], __ATOMIC_ACQUIRE);
  return page == 0 ? nullptr : dump.at<ThreadRecord>(page) + index % kPage;
}

void ThreadTable::set_name(std::uint32_t index, const char* name, DumpWriter& dump) {
  SpinGuard guard(lock_);
  write_name(index, name, dump);
}

bool ThreadTable::set_name_of(std::uint32_t tid, format::ThreadState state, const char* name, DumpWriter& dump) {
  SpinGuard guard(lock_);
  for (std::uint32_t index = 0; index < next_; ++index) {
    const ThreadRecord* thread = record(index, dump);
    if (thread == nullptr || thread->tid != tid || thread->state != state) continue;
    write_name(index, name, dump);
    return true;
  }
  return false;
}

// With the lock.
void ThreadTable::write_name(std::uint32_t index, const char* name, DumpWriter& dump) {
  ThreadRecord* thread = record(index, dump);
  if (thread == nullptr) return;
  Ref& room = names_[index];
  const char nothing[kMostName + 1] = {};
  if (room == 0) room = dump.add_string(nothing, sizeof(nothing));
  if (room == 0) return;
  const std::size_t bytes = strnlen(name, kMostName);
  auto* text = dump.at<format::StringRecord>(room);
  std::memcpy(text + 1, name, bytes);
  __atomic_store_n(&text->bytes, static_cast<std::uint32_t>(bytes), __ATOMIC_RELEASE);
  std::memset(thread->name, 0, sizeof(thread->name));
  std::memcpy(thread->name + format::kThreadNameRef, &room, sizeof(room));
}

std::uint32_t ThreadTable::add(std::uint64_t now_ns, DumpWriter& dump) {
  char name[16] = {};
  if (short_ones_.load(std::memory_order_relaxed) < kManyShort) thread_name(0, name, sizeof(name));  // before the lock
  SpinGuard guard(lock_);
  std::uint32_t index;
  if (free_count_ > 0) {
    index = free_[--free_count_];
  } else {
    if (next_ == kCapacity) return format::kNoIndex;
    if (next_ % kPage == 0) {
      Ref page = dump.allocate_records(format::ChunkType::kThreads, kPage, nullptr);
      if (page == 0) return format::kNoIndex;
      __atomic_store_n(&pages_[next_ / kPage], page, __ATOMIC_RELEASE);
    }
    index = next_++;
  }
  ThreadRecord* thread = record(index, dump);
  store_release(&thread->state, format::ThreadState::kEmpty);
  *thread = {};
  thread->tid = static_cast<std::uint32_t>(syscall(SYS_gettid));
  thread->first_seen_ns = now_ns;
  store_name(thread, name);
  store_release(&thread->state, format::ThreadState::kAlive);
  return index;
}

void ThreadTable::end(std::uint32_t index, std::uint64_t now_ns, std::uint64_t made, std::uint64_t ended,
                      DumpWriter& dump) {
  ThreadRecord* thread = record(index, dump);
  if (thread == nullptr) return;
  // The name of a thread that no record names is not read.
  if (made != ended + __atomic_load_n(&thread->ended_by_others, __ATOMIC_RELAXED))
    refresh_thread_name(thread, short_ones_.load(std::memory_order_relaxed) >= kManyShort);
  // A race between two threads loses a count.
  const std::uint32_t short_ones = short_ones_.load(std::memory_order_relaxed);
  if (now_ns - thread->first_seen_ns >= kShortNs) {
    short_ones_.store(short_ones / 2, std::memory_order_relaxed);
  } else if (short_ones < 4 * kManyShort) {
    short_ones_.store(short_ones + 1, std::memory_order_relaxed);
  }
  thread->ended_ns = now_ns;
  thread->made = made;
  thread->ended_by_itself = ended;
  format::ThreadState state = format::ThreadState::kEnded;
  __atomic_store(&thread->state, &state, __ATOMIC_SEQ_CST);
  reuse_if_unnamed(index, dump);
}

void ThreadTable::count_gone_elsewhere(std::uint32_t index, DumpWriter& dump) {
  ThreadRecord* thread = record(index, dump);
  if (thread == nullptr) return;
  __atomic_fetch_add(&thread->ended_by_others, 1, __ATOMIC_SEQ_CST);
  format::ThreadState state;
  __atomic_load(&thread->state, &state, __ATOMIC_SEQ_CST);
  if (state == format::ThreadState::kEnded) reuse_if_unnamed(index, dump);
}

void ThreadTable::reuse_if_unnamed(std::uint32_t index, DumpWriter& dump) {
  SpinGuard guard(lock_);
  ThreadRecord* thread = record(index, dump);
  if (thread->state != format::ThreadState::kEnded) return;
  std::uint64_t gone = thread->ended_by_itself + __atomic_load_n(&thread->ended_by_others, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&thread->made, __ATOMIC_RELAXED) != gone) return;
  store_release(&thread->state, format::ThreadState::kEmpty);
  free_[free_count_++] = index;
}

}  // namespace culprit
