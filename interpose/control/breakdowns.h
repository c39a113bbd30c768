// Breakdowns: the stacks that hold a device's memory at three kinds of moments: when use is higher than ever before,
// when an allocation fails with out of memory, and when a Python interpreter begins to end. The dump has only the
// present live allocations, so the state at such a moment is copied.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/dump/contexts.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// Every function is thread-safe; of two concurrent requests for a breakdown one is dropped.
class Breakdowns {
 public:
  // `live` bytes of the device are in use, so many that PeakBreakdowns wants a breakdown.
  CULPRIT_COLD void take_at_peak(Process& process, std::uint8_t device, std::uint64_t live, bool at_exit);

  // A call that asked for `bytes` on the current device failed with out of memory.
  CULPRIT_COLD void note_out_of_memory(Process& process, Api api, format::Ref stack, std::uint64_t bytes);

  // The interpreter begins to end: a breakdown of each device.
  CULPRIT_COLD void note_python_ends(Process& process);

 private:
  static constexpr int kFailures = 4;

  bool may_take(std::uint64_t now, std::uint64_t share) const;
  void take_balance(Process& process, std::uint8_t device, format::Moment moment);
  // The fields of a breakdown that do not depend on the live allocations.
  struct Occasion {
    format::BreakdownReason reason = format::BreakdownReason::kPeak;
    std::uint8_t device = 0;
    std::uint16_t api = 0;
    format::Ref stack = 0;
    std::uint64_t asked_bytes = 0;
    std::uint64_t free_bytes = 0;
    std::uint64_t total_bytes = 0;
    std::uint32_t times = 0;
  };
  void take(Process& process, format::BreakdownRecord* record, const Occasion& occasion);

  std::uint32_t uses_;  // of records so far
  std::uint32_t next_failure_;
  std::uint64_t spent_ns_;  // on all breakdowns so far
  // Two for each device: one holds the last breakdown while the other is being written.
  format::Ref peaks_[ContextTable::kMostDevices];
  std::uint8_t turn_[ContextTable::kMostDevices];
  format::Ref ends_[ContextTable::kMostDevices];
  format::Ref failures_;  // kFailures records, the oldest is reused
};

}  // namespace culprit
