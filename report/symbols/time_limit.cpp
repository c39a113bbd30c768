#include "report/symbols/time_limit.h"

#include <ctime>

namespace culprit::report {
namespace {

// The slowest file of a compiler takes a fiftieth.
constexpr std::uint64_t kAnyFile = 3000000000;
constexpr std::uint64_t kForEachByte = 200;  // nanoseconds

std::uint64_t thread_ns() {
  std::timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

TimeLimit::TimeLimit(std::uint64_t file_bytes) : end_ns_(thread_ns() + kAnyFile + kForEachByte * file_bytes) {}

bool TimeLimit::is_over(std::uint64_t steps) {
  steps_ += steps;
  if (over_ || steps_ < kStepsBetween) return over_;
  steps_ = 0;
  over_ = thread_ns() > end_ns_;
  return over_;
}

}  // namespace culprit::report
