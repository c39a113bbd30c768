// How many bytes were in use on each device over the run: a line of fixed size, made coarser as the process grows
// older, in the dump.
#pragma once

#include <cstdint>

#include "interpose/dump/contexts.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

// All zeros = empty. Lives in memory that the kernel wipes in a fork child. Thread-safe.
class TimeLines {
 public:
  // `live` bytes are in use on the device now. Where another thread keeps the line to itself for a tenth of a second,
  // this is not noted. Without has_line() it may have to make the dump larger.
  void note(std::uint8_t device, std::uint64_t live, std::uint64_t now_ns, DumpWriter& dump);
  bool has_line(std::uint8_t device) const {
    return device < ContextTable::kMostDevices && __atomic_load_n(&lines_[device], __ATOMIC_RELAXED) != 0;
  }

  // After the calling thread left a hook by a jump.
  void repair_left();

 private:
  format::TimeLineRecord* line(std::uint8_t device, DumpWriter& dump);

  SpinLock lock_;
  format::Ref lines_[ContextTable::kMostDevices];  // 0 = none yet
};

}  // namespace culprit
