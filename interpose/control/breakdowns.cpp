#include "interpose/control/breakdowns.h"

#include <algorithm>
#include <cstring>

#include "interpose/base/hash.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/format/device_bytes.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/current_place.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::AllocationRecord;
using format::BreakdownRecord;
using format::BreakdownShare;

namespace {

// The live allocations of one device, added up by stack, api and kind. (Not in a HashIndex: here the slots are the
// sums.)
struct Sums {
  static constexpr std::uint32_t kSlots = 8192;  // a power of two
  static constexpr std::uint32_t kMost = 6000;

  std::uint32_t used;
  std::uint64_t other_bytes;  // of stacks without a slot
  std::uint64_t other_count;
  BreakdownShare slots[kSlots];
  BreakdownRecord breakdown;  // too large for a stack

  void add(const AllocationRecord& record, std::uint64_t bytes) {
    std::uint64_t key =
        std::uint64_t{record.stack} << 32 | std::uint64_t{record.api} << 8 | static_cast<std::uint64_t>(record.kind);
    std::uint32_t at = static_cast<std::uint32_t>(quick_hash(key) >> 40) % kSlots;
    while (slots[at].count != 0 &&
           (slots[at].stack != record.stack || slots[at].api != record.api || slots[at].kind != record.kind))
      at = (at + 1) % kSlots;
    BreakdownShare& slot = slots[at];
    if (slot.count == 0) {
      if (used == kMost) {
        other_bytes += bytes;
        ++other_count;
        return;
      }
      ++used;
      slot.stack = record.stack;
      slot.api = record.api;
      slot.kind = record.kind;
    }
    slot.bytes += bytes;
    ++slot.count;
  }
};

// Inserts `share` into the record's sorted list; a share that drops out is added to the others.
void insert(const BreakdownShare& share, BreakdownRecord* record) {
  BreakdownShare moving = share;
  if (moving.bytes > record->shares[format::kBreakdownShares - 1].bytes) {
    for (BreakdownShare& place : record->shares) {
      if (moving.bytes > place.bytes) std::swap(moving, place);
    }
  }
  if (moving.count == 0) return;
  record->other_bytes += moving.bytes;
  record->other_count += moving.count;
  ++record->other_stacks;
}

void add_up(Process& process, Sums* sums, BreakdownRecord* record) {
  std::memset(record->shares, 0, sizeof(record->shares));
  record->live_bytes = record->live_count = 0;
  process.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& one) {
    if (!is_live_now(one) || one.device != record->device || !is_on_device(one.kind)) return;
    std::uint64_t bytes = physical_bytes(one);
    if (bytes == 0) return;
    sums->add(one, bytes);
    record->live_bytes += bytes;
    ++record->live_count;
  });
  record->other_bytes = sums->other_bytes;
  record->other_count = sums->other_count;
  record->other_stacks = sums->other_count != 0 ? 1 : 0;
  for (const BreakdownShare& slot : sums->slots) {
    if (slot.count != 0) insert(slot, record);
  }
}

}  // namespace

// Breakdowns may take one part in `share` of the time; the first few are always taken.
bool Breakdowns::may_take(std::uint64_t now, std::uint64_t share) const {
  constexpr std::uint64_t kFree = 20'000'000;
  return spent_ns_ <= kFree + now / share;
}

void Breakdowns::take(Process& process, BreakdownRecord* record, const Occasion& occasion) {
  int error = 0;
  auto* sums = static_cast<Sums*>(map_private(sizeof(Sums), &error));
  if (sums == nullptr) return;
  std::uint64_t start = now_ns(process);
  __atomic_store_n(&record->state, 0U, __ATOMIC_RELEASE);
  BreakdownRecord& breakdown = sums->breakdown;
  breakdown.reason = occasion.reason;
  breakdown.device = occasion.device;
  breakdown.api = occasion.api;
  breakdown.stack = occasion.stack;
  breakdown.asked_bytes = occasion.asked_bytes;
  breakdown.free_bytes = occasion.free_bytes;
  breakdown.total_bytes = occasion.total_bytes;
  breakdown.times = occasion.times;
  breakdown.time_ns = start;
  breakdown.thread = thread_state.index;
  add_up(process, sums, &breakdown);
  std::memcpy(reinterpret_cast<char*>(record) + sizeof(record->state),
              reinterpret_cast<const char*>(&breakdown) + sizeof(breakdown.state),
              sizeof(breakdown) - sizeof(breakdown.state));
  __atomic_store_n(&record->state, ++uses_, __ATOMIC_RELEASE);
  unmap_private(sums, sizeof(Sums));
  spent_ns_ += now_ns(process) - start;
}

void Breakdowns::take_balance(Process& process, std::uint8_t device, format::Moment moment) {
  const std::uint64_t start = now_ns(process);
  meter_of(process).take_balance(process, device, moment);
  spent_ns_ += now_ns(process) - start;
}

void Breakdowns::take_at_peak(Process& process, std::uint8_t device, std::uint64_t live, bool at_exit) {
  constexpr std::uint64_t kShare = 50;
  if (!breakdown_lock_of(process).try_lock()) return;
  if (at_exit || may_take(now_ns(process), kShare)) {
    if (peaks_[device] == 0) peaks_[device] = process.dump.allocate_records(format::ChunkType::kBreakdowns, 2, nullptr);
    if (peaks_[device] != 0) {
      Occasion peak;
      peak.device = device;
      turn_[device] ^= 1;
      BreakdownRecord* pair = process.dump.at<BreakdownRecord>(peaks_[device]);
      take(process, pair + turn_[device], peak);
      if (!at_exit) take_balance(process, device, format::Moment::kPeak);
      peak_breakdowns_of(process).note_taken(device, live);
      // The earlier breakdown is no longer needed.
      __atomic_store_n(&pair[turn_[device] ^ 1].state, 0U, __ATOMIC_RELEASE);
    }
  }
  breakdown_lock_of(process).unlock();
}

void Breakdowns::note_python_ends(Process& process) {
  if (!breakdown_lock_of(process).try_lock()) return;
  process.dump.for_each_record<format::DeviceRecord>(format::ChunkType::kDevices, [&](const format::DeviceRecord& one) {
    if (__atomic_load_n(&one.state, __ATOMIC_ACQUIRE) == 0 || one.ordinal >= ContextTable::kMostDevices) return;
    format::Ref& end = ends_[one.ordinal];
    if (end == 0) end = process.dump.allocate_records(format::ChunkType::kBreakdowns, 1, nullptr);
    if (end == 0) return;
    Occasion ends;
    ends.reason = format::BreakdownReason::kPythonEnds;
    ends.device = static_cast<std::uint8_t>(one.ordinal);
    take(process, process.dump.at<BreakdownRecord>(end), ends);
  });
  breakdown_lock_of(process).unlock();
}

void Breakdowns::note_out_of_memory(Process& process, Api api, format::Ref stack, std::uint64_t bytes) {
  constexpr std::uint64_t kShare = 8;
  Place place = current_place(process);
  if (place.device >= ContextTable::kMostDevices || !breakdown_lock_of(process).try_lock()) return;
  if (failures_ == 0) failures_ = process.dump.allocate_records(format::ChunkType::kBreakdowns, kFailures, nullptr);
  if (failures_ != 0) {
    BreakdownRecord* records = process.dump.at<BreakdownRecord>(failures_);
    // A program that retries again and again keeps one breakdown, the latest.
    BreakdownRecord* record = nullptr;
    for (int i = 0; i < kFailures; ++i) {
      if (records[i].state != 0 && records[i].stack == stack && records[i].device == place.device) record = records + i;
    }
    std::uint32_t times = record != nullptr ? record->times + 1 : 1;
    if (record == nullptr) record = records + next_failure_++ % kFailures;
    std::uint64_t now = now_ns(process);
    if (times == 1 || may_take(now, kShare)) {
      Occasion failure;
      failure.reason = format::BreakdownReason::kOutOfMemory;
      failure.device = place.device;
      failure.api = static_cast<std::uint16_t>(api);
      failure.stack = stack;
      failure.asked_bytes = bytes;
      failure.times = times;
      format::MemoryReading reading;
      if (!has_captures(process) && read_memory(now, &reading)) {
        failure.free_bytes = reading.free_bytes;
        failure.total_bytes = reading.total_bytes;
      }
      take(process, record, failure);
      take_balance(process, place.device, format::Moment::kOutOfMemory);
    } else {
      __atomic_store_n(&record->times, times, __ATOMIC_RELAXED);
    }
  }
  breakdown_lock_of(process).unlock();
}

}  // namespace culprit
