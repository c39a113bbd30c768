// The present on the clock of a dump's records. Not realtime_ns() each time: the clock of a machine is set now and
// then.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "report/base/clock.h"
#include "report/dump/dump_reader.h"

namespace culprit::report {

class DumpClock {
 public:
  // Nanoseconds since the dump's start. `dump`: always of the same process.
  std::uint64_t now(const Dump& dump) {
    const auto present = std::chrono::steady_clock::now();
    if (!first_) {
      const std::uint64_t ns = realtime_ns();
      const std::uint64_t start = dump.header().start_realtime_ns;
      first_ns_ = ns > start ? ns - start : 0;
      first_ = present;
    }
    const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(present - *first_).count();
    return first_ns_ + static_cast<std::uint64_t>(since);
  }

 private:
  std::uint64_t first_ns_ = 0;  // of the first call
  std::optional<std::chrono::steady_clock::time_point> first_;
};

}  // namespace culprit::report
