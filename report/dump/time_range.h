// A part of a run: the events that a report is limited to.
#pragma once

#include <cstdint>

namespace culprit::report {

struct TimeRange {
  std::uint64_t since_ns = 0;                   // events at this time and later
  std::uint64_t before_ns = ~std::uint64_t{0};  // events earlier than this time

  bool has(std::uint64_t time_ns) const { return time_ns >= since_ns && (time_ns < before_ns || before_ns == ~0ULL); }
  bool is_whole() const { return since_ns == 0 && before_ns == ~0ULL; }
};

}  // namespace culprit::report
