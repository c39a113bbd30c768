#include "interpose/dump/time_line.h"

#include <algorithm>

#include "interpose/dump/thread_part.h"

namespace culprit {

using format::kTimeLineBuckets;
using format::TimeLineBucket;
using format::TimeLineRecord;

namespace {

constexpr std::uint64_t kFirstBucketNs = 1 << 16;

// A thread without the lock reads these words, too, and stores a bucket's last value.
template <typename T>
T get(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <typename T>
void set(T* word, T value) {
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
void set(TimeLineBucket* bucket, std::uint64_t low, std::uint64_t high, std::uint64_t last) {
  set(&bucket->low, low);
  set(&bucket->high, high);
  set(&bucket->last, last);
}

// A bucket's length is a power of two: a shift, because a division would dominate the cost.
std::uint64_t bucket_of(std::uint64_t bucket_ns, std::uint64_t now_ns) { return now_ns >> __builtin_ctzll(bucket_ns); }

// Merges pairs of buckets until `now_ns` fits.
void make_room(TimeLineRecord* line, std::uint64_t now_ns) {
  while (line->bucket_ns != 0 && bucket_of(line->bucket_ns, now_ns) >= kTimeLineBuckets) {
    std::uint32_t used = (line->used + 1) / 2;
    for (std::uint32_t i = 0; i < used; ++i) {
      const TimeLineBucket& left = line->buckets[2 * i];
      const TimeLineBucket& right = 2 * i + 1 < line->used ? line->buckets[2 * i + 1] : left;
      set(&line->buckets[i], std::min(left.low, right.low), std::max(left.high, right.high), get(right.last));
    }
    set(&line->used, used);
    set(&line->bucket_ns, line->bucket_ns * 2);
  }
}

void add(TimeLineRecord* line, std::uint64_t live, std::uint64_t now_ns) {
  make_room(line, now_ns);
  // All zeros: the file was truncated, see truncation_guard.h.
  if (line->bucket_ns == 0 || line->used > kTimeLineBuckets) return;
  // A thread that read the clock before another thread but gets here later uses the last bucket.
  std::uint64_t at = bucket_of(line->bucket_ns, now_ns);
  if (line->used != 0 && at + 1 < line->used) at = line->used - 1;
  for (std::uint32_t i = line->used; i <= at; ++i) {
    std::uint64_t before = i == 0 ? 0 : get(line->buckets[i - 1].last);
    set(&line->buckets[i], before, before, before);
  }
  if (at >= line->used) set(&line->used, static_cast<std::uint32_t>(at) + 1);
  TimeLineBucket& bucket = line->buckets[at];
  set(&bucket, std::min(bucket.low, live), std::max(bucket.high, live), live);
  if (live > line->peak_bytes) {
    set(&line->peak_bytes, live);
    line->peak_ns = now_ns;
  }
}

// Whether the newest bucket and the peak cover `live`, so that it is only the bucket's last value: frequent changes
// need no lock then. If another thread makes room meanwhile, the value goes into a bucket that is not in use any more,
// or becomes the last one of another bucket.
bool note_within(TimeLineRecord* line, std::uint64_t live, std::uint64_t now_ns) {
  const std::uint64_t bucket_ns = get(line->bucket_ns);
  if (bucket_ns == 0) return false;
  const std::uint64_t at = bucket_of(bucket_ns, now_ns);
  if (at >= kTimeLineBuckets || at + 1 != get(line->used)) return false;
  TimeLineBucket& bucket = line->buckets[at];
  if (live < get(bucket.low) || live > get(bucket.high) || live > get(line->peak_bytes)) return false;
  set(&bucket.last, live);
  return true;
}

}  // namespace

// With the lock held.
TimeLineRecord* TimeLines::line(std::uint8_t device, DumpWriter& dump) {
  if (lines_[device] == 0) {
    const format::Ref made = dump.allocate_records(format::ChunkType::kTimeLines, 1, nullptr);
    if (made == 0) return nullptr;
    auto* line = dump.at<TimeLineRecord>(made);
    line->device = device;
    line->bucket_ns = kFirstBucketNs;
    __atomic_store_n(&lines_[device], made, __ATOMIC_RELEASE);
  }
  return dump.at<TimeLineRecord>(lines_[device]);
}

void TimeLines::note(std::uint8_t device, std::uint64_t live, std::uint64_t now_ns, DumpWriter& dump) {
  if (device >= ContextTable::kMostDevices || dump.stopped()) return;
  const format::Ref known = __atomic_load_n(&lines_[device], __ATOMIC_ACQUIRE);
  if (known != 0 && note_within(dump.at<TimeLineRecord>(known), live, now_ns)) return;
  constexpr std::uint32_t kLongestMs = 100;
  if (!lock_.try_lock_for(kLongestMs, thread_locks.owner())) return;
  if (TimeLineRecord* record = line(device, dump)) {
    // Odd during the change; never 0 again. A reader of a running process reads it twice.
    __atomic_store_n(&record->state, record->state | 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    add(record, live, now_ns);
    std::uint32_t next = record->state + 1;
    __atomic_store_n(&record->state, next == 0 ? 2 : next, __ATOMIC_RELEASE);
  }
  lock_.unlock();
}

void TimeLines::repair_left() {
  if (lock_.is_held_by(thread_locks.owner())) lock_.unlock();
}

}  // namespace culprit
