// Who holds a device's memory at moments that matter: when use is higher than ever before, and when an allocation fails
// with out of memory. What is live is known call by call; how it was at an earlier moment is not, so it is kept.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/dump/contexts.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// All zeros = none taken yet. Lives in memory that the kernel wipes in a fork child. Every function is thread-safe; of
// two threads that want a picture at the same time one gets it.
class Pictures {
 public:
  // `live` bytes of the device are in use, more than a moment ago. Takes a picture when that is a sixteenth more than
  // in the last one, so that a program that grows to any size has a few dozen taken; `at_exit`: when it is any more.
  void note_growth(Process& process, std::uint8_t device, std::uint64_t live, bool at_exit = false) {
    if (wants(device, live, at_exit)) take_at_peak(process, device, live, at_exit);
  }
  // Whether note_growth() would take one.
  bool wants(std::uint8_t device, std::uint64_t live, bool at_exit = false) const {
    if (device >= ContextTable::kMostDevices) return false;
    std::uint64_t last = pictured_[device].load(std::memory_order_relaxed);
    return CULPRIT_UNLIKELY(live >= last + last / 16 + kLeastGrowth) || (at_exit && live > last);
  }

  // A call that asked for `bytes` on the current device failed with out of memory.
  CULPRIT_COLD void note_out_of_memory(Process& process, Api api, format::Ref stack, std::uint64_t bytes);

  // None is made until resume(). False when one is being made just now.
  bool pause() { return busy_.exchange(1, std::memory_order_acquire) == 0; }
  void resume() { busy_.store(0, std::memory_order_release); }

 private:
  static constexpr std::uint64_t kLeastGrowth = 1 << 20;
  static constexpr int kFailures = 4;

  CULPRIT_COLD void take_at_peak(Process& process, std::uint8_t device, std::uint64_t live, bool at_exit);
  bool may_take(std::uint64_t now, std::uint64_t share) const;
  void take(Process& process, format::PictureRecord* record, const format::PictureRecord& fields);

  std::atomic<std::uint32_t> busy_;
  std::uint32_t uses_;  // of records, so far
  std::uint32_t next_failure_;
  std::uint64_t spent_ns_;                                           // on all pictures so far
  std::atomic<std::uint64_t> pictured_[ContextTable::kMostDevices];  // bytes of the last picture at a peak
  // Two for each device: while one is being written the other holds the last.
  format::Ref peaks_[ContextTable::kMostDevices];
  std::uint8_t turn_[ContextTable::kMostDevices];
  format::Ref failures_;  // kFailures of them, the oldest is used again
};

}  // namespace culprit
