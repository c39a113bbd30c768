// The bytes of each device that records show as live, and their peak.
//
// Each thread adds up its own changes until they are large: a shared counter would be a contended cache line. It adds
// them at once where the sum would be above the peak so far, so that the peak of one thread is exact.
//
// All functions here are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/dump/contexts.h"
#include "interpose/metering/device_use.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_state.h"

namespace culprit {

// The live memory of the program's graphs, which the driver keeps apart. All zeros = there is none.
class GraphBytes {
 public:
  // Graphs of the program allocate memory.
  void expect() { expected_.store(true, std::memory_order_relaxed); }
  bool expected() const { return expected_.load(std::memory_order_relaxed); }

  // A graph was launched, or its memory freed: a reading that was taken meanwhile is repeated.
  void note_change() {
    if (CULPRIT_UNLIKELY(expected())) changes_.fetch_add(1, std::memory_order_release);
  }
  std::uint32_t changes() const { return changes_.load(std::memory_order_acquire); }

  // Graph memory became live, or was freed; called where DeviceRecord::live_bytes changes, too.
  void change(std::uint8_t device, std::int64_t change) {
    if (device >= ContextTable::kMostDevices) return;
    __atomic_fetch_add(&live_[device], change, __ATOMIC_RELAXED);
    note_change();
  }
  std::int64_t live(std::uint8_t device) const { return __atomic_load_n(&live_[device], __ATOMIC_RELAXED); }
  void set_live(std::uint8_t device, std::int64_t bytes) { __atomic_store_n(&live_[device], bytes, __ATOMIC_RELAXED); }

 private:
  std::atomic<bool> expected_;
  std::int64_t live_[ContextTable::kMostDevices];
  std::atomic<std::uint32_t> changes_;  // calls of note_change()
};

// When a growing device is worth a breakdown of its memory (breakdowns.h): a sixteenth more than in the last one, so
// that a growing program causes a few dozen breakdowns; `at_exit`: when it is more at all.
class PeakBreakdowns {
 public:
  bool wants(std::uint8_t device, std::uint64_t live, bool at_exit = false) const {
    if (device >= ContextTable::kMostDevices) return false;
    std::uint64_t last = last_breakdown_[device].load(std::memory_order_relaxed);
    return CULPRIT_UNLIKELY(live >= last + last / 16 + kLeastGrowth) || (at_exit && live > last);
  }
  void note_taken(std::uint8_t device, std::uint64_t live) {
    last_breakdown_[device].store(live, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kLeastGrowth = 1 << 20;
  std::atomic<std::uint64_t> last_breakdown_[ContextTable::kMostDevices];  // bytes of the last breakdown at a peak
};

// The process with the parts of this file and of device_use.h.
struct LiveState : CallStackState {
  GraphBytes graph_bytes;
  PeakBreakdowns peak_breakdowns;
  std::atomic<std::uint64_t> last_reading_ns;  // of a device's memory
  // DeviceRecord::live_bytes when free memory was last read at a peak.
  std::atomic<std::uint64_t> live_at_reading[ContextTable::kMostDevices];
  DeviceUse device_use;
};
inline GraphBytes& graph_bytes_of(Process& process) { return static_cast<LiveState&>(process).graph_bytes; }
inline PeakBreakdowns& peak_breakdowns_of(Process& process) { return static_cast<LiveState&>(process).peak_breakdowns; }
inline DeviceUse& device_use_of(Process& process) { return static_cast<LiveState&>(process).device_use; }

constexpr std::uint64_t kHeldBackBytes = 4 << 20;

// Adds the calling thread's pending change to its device's sum of live bytes.
CULPRIT_COLD void flush_live_bytes(Process& process);

// For memory whose size a thread cannot hold back. device_at_hand(): the device's record, if flush_live_bytes_shortly()
// does all that flush_live_bytes() would do after the calling thread's memory there changed by `change` more; nullptr:
// something is to be read of the driver, or the dump grows. Neither changes errno. `now_ns`: event_ns().
CULPRIT_HOT format::DeviceRecord* device_at_hand(Process& process, std::uint8_t ordinal, std::int64_t change);
CULPRIT_HOT void flush_live_bytes_shortly(Process& process, format::DeviceRecord* device, std::uint64_t now_ns);

// Whether the process's bytes by NVML change by exactly `change`: the driver takes whole blocks of 2 MiB, what it has
// in pools is not given back at once, and managed memory is in no process's figure.
constexpr bool changes_alike(format::Kind kind, std::int64_t change) {
  constexpr std::int64_t kBlock = 2 << 20;
  return (kind == format::Kind::kDevice || kind == format::Kind::kVmmPhysical) && (change & (kBlock - 1)) == 0;
}

// Memory was allocated (or, negative, freed) on a device.
__attribute__((always_inline)) inline void change_live_bytes(Process& process, std::uint8_t ordinal, format::Kind kind,
                                                             std::int64_t change) {
  ThreadState& thread = thread_state;
  if (CULPRIT_UNLIKELY(thread.sums.live_device != ordinal)) {
    flush_live_bytes(process);
    thread.sums.live_device = ordinal;
    thread.sums.window = 0;
  }
  thread.sums.changes += changes_alike(kind, change) ? 0 : 1;
  thread.sums.live_delta += change;
  if (CULPRIT_UNLIKELY(static_cast<std::uint64_t>(thread.sums.live_delta) + kHeldBackBytes > thread.sums.window))
    flush_live_bytes(process);
}

// The calling thread's first allocation on this device, or the first one after another device's.
CULPRIT_COLD void begin_on_device(Process& process, std::uint8_t ordinal, std::uint64_t live);

// Recounts every device's live bytes exactly, by a walk over all live allocations.
void sum_live_bytes(Process& process);

// Less, for an attached process with many thousand allocations, which is stopped meanwhile: adds what the threads
// hold back, without a walk and without a breakdown. Recording has ended, and no thread is in the tracker.
void settle_live_bytes(Process& process);

}  // namespace culprit
