// How many bytes were in use on each device over the run: a line of fixed size, made coarser as the process grows
// older, in the dump.
#pragma once

#include <cstdint>

#include "interpose/contexts.h"
#include "interpose/dump_writer.h"

namespace culprit {

// All zeros = empty. Lives in memory that the kernel wipes in a fork child. Thread-safe.
class TimeLines {
 public:
  // `live` bytes are in use on the device now.
  void note(std::uint8_t device, std::uint64_t live, std::uint64_t now_ns, DumpWriter& dump);

 private:
  format::TimeLineRecord* line(std::uint8_t device, DumpWriter& dump);

  SpinLock lock_;
  format::Ref lines_[ContextTable::kMostDevices];  // 0 = none yet
};

}  // namespace culprit
