// The totals of a report, computed from its groups (sum_up.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "interpose/format/dump_records.h"

namespace culprit::report {

struct Pool;

struct Total {
  std::optional<unsigned> device;
  format::Kind kind = format::Kind::kNone;
  std::uint64_t bytes = 0;
  std::uint64_t region_bytes = 0;  // of announced regions: a part of the bytes of other kinds
  std::uint64_t count = 0;
};

// The memory that one caching allocator keeps.
struct CacheTotal {
  const Pool* pool = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t segments = 0;
};

struct Summary {
  std::uint64_t leaked_bytes = 0;
  std::uint64_t leaked_device_bytes = 0;
  std::uint64_t leaked_host_bytes = 0;
  std::uint64_t leaked_allocations = 0;
  std::uint64_t groups = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t thread_ended_bytes = 0;  // the part of the leaked bytes that was allocated by threads that have ended
  std::uint64_t library_bytes = 0;
  std::uint64_t library_allocations = 0;
  std::uint64_t errors = 0;  // refused and bad frees
  std::uint64_t failed_allocations = 0;
  std::uint64_t resources = 0;  // streams, events, contexts, ...: only the program's own
#define COUNTER_SUMMARY(name) std::uint64_t name = 0;
#define COUNTER_CALLS(name) std::uint64_t name = 0;
#include "interpose/format/counters.def"
  std::vector<CacheTotal> caches;  // largest first
  std::vector<Total> totals;       // of the leaks, by device and kind
};

}  // namespace culprit::report
