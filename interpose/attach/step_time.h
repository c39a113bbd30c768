// How long a step of an attach may take, so that the program's thread is stopped for a short time only.
#pragma once

#include <cstdint>

#include "interpose/system/clock.h"

namespace culprit {

class StepTime {
 public:
  // Without an argument: without end.
  StepTime() = default;
  explicit StepTime(std::uint64_t nanoseconds) : end_(clock_ns(CLOCK_MONOTONIC) + nanoseconds) {}
  // A time of CLOCK_MONOTONIC, in nanoseconds.
  std::uint64_t end() const { return end_; }
  bool is_over() const { return clock_ns(CLOCK_MONOTONIC) >= end_; }

 private:
  std::uint64_t end_ = ~0ULL;
};

}  // namespace culprit
