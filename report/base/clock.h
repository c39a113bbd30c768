// The time of day.
#pragma once

#include <chrono>
#include <cstdint>

namespace culprit::report {

// CLOCK_REALTIME, as the times in a dump's header. Thread-safe.
inline std::uint64_t realtime_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

}  // namespace culprit::report
