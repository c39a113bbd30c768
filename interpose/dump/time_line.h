// Time lines: bytes in use on each device over the run, in records of fixed size in the dump. Their resolution becomes
// coarser as the run gets longer.
#pragma once

#include <cstdint>

#include "interpose/dump/contexts.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

// Thread-safe.
class TimeLines {
 public:
  // `live` bytes are in use on the device now. Skipped if another thread holds the lock for a tenth of a second. May
  // grow the dump unless has_line().
  void note(std::uint8_t device, std::uint64_t live, std::uint64_t now_ns, DumpWriter& dump);
  bool has_line(std::uint8_t device) const {
    return device < ContextTable::kMostDevices && __atomic_load_n(&lines_[device], __ATOMIC_RELAXED) != 0;
  }

  // Call after the calling thread left a hook by a jump.
  void repair_left();

 private:
  format::TimeLineRecord* line(std::uint8_t device, DumpWriter& dump);

  SpinLock lock_;
  format::Ref lines_[ContextTable::kMostDevices];  // 0 = none yet
};

}  // namespace culprit
