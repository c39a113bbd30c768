#include "interpose/metering/live_bytes.h"

#include "interpose/format/device_bytes.h"
#include "interpose/process/current_place.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/rooms_above.h"
#include "interpose/system/own_stack.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

// Live memory on the device has grown by a sixteenth (and 32 MiB) since the last reading of free and total memory.
bool is_peak(const LiveState& process, std::uint8_t ordinal, const format::DeviceRecord* device, std::uint64_t live) {
  constexpr std::uint64_t kLeastGrowth = 32ULL << 20;
  const std::uint64_t last = process.live_at_reading[ordinal].load(std::memory_order_relaxed);
  return device->first.total_bytes == 0 || live >= last + last / 16 + kLeastGrowth;
}

// The most recorded bytes are kept apart from those readings, which are rare. Returns them.
std::uint64_t raise_peak(format::DeviceRecord* device, std::uint64_t live) {
  std::uint64_t peak = __atomic_load_n(&device->peak_live_bytes, __ATOMIC_RELAXED);
  while (live > peak && live < 1ULL << 63) {
    if (__atomic_compare_exchange_n(&device->peak_live_bytes, &peak, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return live;
  }
  return peak;
}

void breakdown_growth(LiveState& process, std::uint8_t ordinal, std::uint64_t live, bool at_exit) {
  if (process.peak_breakdowns.wants(ordinal, live, at_exit) && rooms_above.breakdown_peak != nullptr)
    rooms_above.breakdown_peak(process, ordinal, live, at_exit);
}

// Reads free and total memory at such a peak, at most 20 times a second because it costs a driver call, and never
// during a stream capture.
CULPRIT_COLD void read_memory_at_peak(LiveState& process, std::uint8_t ordinal, format::DeviceRecord* device,
                                      std::uint64_t live) {
  constexpr std::uint64_t kLeastInterval = 50000000;
  if (!is_peak(process, ordinal, device, live)) return;
  const bool first = device->first.total_bytes == 0;
  if (has_captures(process)) return;
  std::uint64_t now = now_ns(process);
  std::uint64_t last = process.last_reading_ns.load(std::memory_order_relaxed);
  if (!first && (now - last < kLeastInterval || !process.last_reading_ns.compare_exchange_strong(last, now))) return;
  format::MemoryReading reading;
  if (current_place(process).device != ordinal || !read_memory(now, &reading)) return;
  process.live_at_reading[ordinal].store(live, std::memory_order_relaxed);
  if (first) device->first = reading;
  if (first || reading.free_bytes < device->peak.free_bytes) device->peak = reading;
}

}  // namespace

void begin_on_device(Process& process, std::uint8_t ordinal, std::uint64_t live) {
  device_use_of(process).note_made(process, ordinal);
  format::DeviceRecord* device = process.tables.contexts.known_device(ordinal, process.dump);
  if (device != nullptr && device->first.total_bytes == 0)
    on_own_stack([&] { read_memory_at_peak(static_cast<LiveState&>(process), ordinal, device, live); });
}

namespace {

// Adds the calling thread's pending change, and says how much it may hold back from now on. Returns the device's sum.
__attribute__((always_inline)) inline std::uint64_t add_pending(format::DeviceRecord* device) {
  ThreadSums& sums = thread_state.sums;
  const auto change = static_cast<std::uint64_t>(sums.live_delta);
  sums.live_delta = 0;
  const std::uint64_t live = __atomic_add_fetch(&device->live_bytes, change, __ATOMIC_RELAXED);
  const std::uint64_t peak = raise_peak(device, live);
  sums.window = live <= peak && peak - live < kHeldBackBytes ? kHeldBackBytes + (peak - live) : 2 * kHeldBackBytes;
  return live;
}

bool wants_reading(LiveState& state, std::uint8_t ordinal, const format::DeviceRecord* device, std::uint64_t live) {
  return CULPRIT_UNLIKELY(is_peak(state, ordinal, device, live)) || state.peak_breakdowns.wants(ordinal, live);
}

}  // namespace

// Usually runs on the caller's stack: a program with large allocations gets here on every call.
void flush_live_bytes(Process& process) {
  ThreadSums& sums = thread_state.sums;
  if (sums.live_delta == 0) return;
  const std::uint8_t ordinal = sums.live_device;
  const bool grew = sums.live_delta > 0;
  format::DeviceRecord* device = process.tables.contexts.known_device(ordinal, process.dump);
  if (device == nullptr) {
    sums.live_delta = 0;
    sums.window = 2 * kHeldBackBytes;
    return;
  }
  const std::uint64_t live = add_pending(device);
  const std::uint64_t now = event_ns(process);
  if (CULPRIT_LIKELY(process.tables.time_lines.has_line(ordinal))) {
    process.tables.time_lines.note(ordinal, live, now, process.dump);
  } else {
    on_own_stack([&] { process.tables.time_lines.note(ordinal, live, now, process.dump); });
  }
  auto& state = static_cast<LiveState&>(process);
  if (!grew || CULPRIT_LIKELY(!wants_reading(state, ordinal, device, live))) return;
  on_own_stack([&] {
    read_memory_at_peak(state, ordinal, device, live);
    breakdown_growth(state, ordinal, live, false);
  });
}

format::DeviceRecord* device_at_hand(Process& process, std::uint8_t ordinal, std::int64_t change) {
  const ThreadSums& sums = thread_state.sums;
  if (sums.live_device != ordinal || !process.tables.time_lines.has_line(ordinal)) return nullptr;
  format::DeviceRecord* device = process.tables.contexts.known_device(ordinal, process.dump);
  if (CULPRIT_UNLIKELY(device == nullptr)) return nullptr;
  const std::int64_t pending = sums.live_delta + change;
  const std::uint64_t live =
      __atomic_load_n(&device->live_bytes, __ATOMIC_RELAXED) + static_cast<std::uint64_t>(pending);
  const bool grew = pending > 0;
  return grew && wants_reading(static_cast<LiveState&>(process), ordinal, device, live) ? nullptr : device;
}

void flush_live_bytes_shortly(Process& process, format::DeviceRecord* device, std::uint64_t now_ns) {
  const std::uint64_t live = add_pending(device);
  process.tables.time_lines.note(thread_state.sums.live_device, live, now_ns, process.dump);
}

namespace {

__attribute__((noinline)) void sum_graph_live(Process& process) {
  std::int64_t live[ContextTable::kMostDevices] = {};
  process.tables.live.sweep(process.dump, [&](const AllocationRecord& record, Ref, EndedBy*) {
    if (record.kind == Kind::kGraphMemory && record.device < ContextTable::kMostDevices)
      live[record.device] += static_cast<std::int64_t>(physical_bytes(record));
    return false;
  });
  for (int ordinal = 0; ordinal < ContextTable::kMostDevices; ++ordinal)
    graph_bytes_of(process).set_live(static_cast<std::uint8_t>(ordinal), live[ordinal]);
}

}  // namespace

void sum_live_bytes(Process& process) {
  sum_graph_live(process);
  std::uint64_t live[ContextTable::kMostDevices] = {};
  process.tables.live.sweep(process.dump, [&](const AllocationRecord& record, Ref, EndedBy*) {
    if (is_on_device(record.kind) && record.device < ContextTable::kMostDevices)
      live[record.device] += physical_bytes(record);
    return false;
  });
  thread_state.sums.live_delta = 0;
  for (int ordinal = 0; ordinal < ContextTable::kMostDevices; ++ordinal) {
    format::DeviceRecord* device =
        process.tables.contexts.known_device(static_cast<std::uint8_t>(ordinal), process.dump);
    if (device == nullptr) continue;
    __atomic_store_n(&device->live_bytes, live[ordinal], __ATOMIC_RELAXED);
    process.tables.time_lines.note(static_cast<std::uint8_t>(ordinal), live[ordinal], now_ns(process), process.dump);
    if (live[ordinal] > device->peak_live_bytes) device->peak_live_bytes = live[ordinal];
    breakdown_growth(static_cast<LiveState&>(process), static_cast<std::uint8_t>(ordinal), live[ordinal], true);
  }
}

void settle_live_bytes(Process& process) {
  for_each_known_thread([&](ThreadState* thread) {
    format::DeviceRecord* device = process.tables.contexts.known_device(thread->sums.live_device, process.dump);
    if (device == nullptr) return;
    const auto change = static_cast<std::uint64_t>(thread->sums.live_delta);
    thread->sums.live_delta = 0;
    raise_peak(device, __atomic_add_fetch(&device->live_bytes, change, __ATOMIC_RELAXED));
  });
  for (int ordinal = 0; ordinal < ContextTable::kMostDevices; ++ordinal) {
    const auto place = static_cast<std::uint8_t>(ordinal);
    const format::DeviceRecord* device = process.tables.contexts.known_device(place, process.dump);
    if (device == nullptr) continue;
    process.tables.time_lines.note(place, device->live_bytes, process.dump.header()->end_time_ns, process.dump);
  }
}

}  // namespace culprit
