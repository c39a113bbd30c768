#include "interpose/dump/time_line.h"

#include "interpose/dump/thread_part.h"

namespace culprit {

using format::kTimeLineBuckets;
using format::TimeLineBucket;
using format::TimeLineRecord;

namespace {

constexpr std::uint64_t kFirstBucketNs = 1 << 16;

// A bucket's length is a power of two: a shift, because a division would dominate the cost.
std::uint64_t bucket_of(const TimeLineRecord& line, std::uint64_t now_ns) {
  return now_ns >> __builtin_ctzll(line.bucket_ns);
}

// Merges pairs of buckets until `now_ns` fits.
void make_room(TimeLineRecord* line, std::uint64_t now_ns) {
  while (line->bucket_ns != 0 && bucket_of(*line, now_ns) >= kTimeLineBuckets) {
    std::uint32_t used = (line->used + 1) / 2;
    for (std::uint32_t i = 0; i < used; ++i) {
      const TimeLineBucket& left = line->buckets[2 * i];
      const TimeLineBucket& right = 2 * i + 1 < line->used ? line->buckets[2 * i + 1] : left;
      line->buckets[i] = {left.low < right.low ? left.low : right.low, left.high > right.high ? left.high : right.high,
                          right.last};
    }
    line->used = used;
    line->bucket_ns *= 2;
  }
}

void add(TimeLineRecord* line, std::uint64_t live, std::uint64_t now_ns) {
  make_room(line, now_ns);
  // All zeros: the file was truncated, see truncation_guard.h.
  if (line->bucket_ns == 0 || line->used > kTimeLineBuckets) return;
  // A thread that read the clock before another thread but gets here later uses the last bucket.
  std::uint64_t at = bucket_of(*line, now_ns);
  if (line->used != 0 && at + 1 < line->used) at = line->used - 1;
  for (std::uint32_t i = line->used; i <= at; ++i) {
    std::uint64_t before = i == 0 ? 0 : line->buckets[i - 1].last;
    line->buckets[i] = {before, before, before};
  }
  if (at >= line->used) line->used = static_cast<std::uint32_t>(at) + 1;
  TimeLineBucket& bucket = line->buckets[at];
  if (live < bucket.low) bucket.low = live;
  if (live > bucket.high) bucket.high = live;
  bucket.last = live;
  if (live > line->peak_bytes) {
    line->peak_bytes = live;
    line->peak_ns = now_ns;
  }
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
    __atomic_store_n(&lines_[device], made, __ATOMIC_RELAXED);
  }
  return dump.at<TimeLineRecord>(lines_[device]);
}

void TimeLines::note(std::uint8_t device, std::uint64_t live, std::uint64_t now_ns, DumpWriter& dump) {
  if (device >= ContextTable::kMostDevices || dump.stopped()) return;
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
