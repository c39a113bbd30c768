// The threads of a report.
#pragma once

#include <cstdint>
#include <string>

namespace culprit::report {

struct ThreadInfo {
  std::uint32_t tid = 0;
  std::string name;
  bool ended = false;
  std::uint64_t ended_ns = 0;
};

// Threads of several processes, by name, because thread ids mean nothing outside of their process.
struct ThreadSum {
  std::string name;
  std::uint64_t threads = 0;
  std::uint64_t ended = 0;  // how many of `threads` have ended
  std::uint64_t processes = 0;
};

}  // namespace culprit::report
