// The holders of a device's memory at one moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_records.h"
#include "report/base/compiled_once.h"
#include "report/model/cache_inside.h"
#include "report/model/gpu_charges.h"

namespace culprit::report {

struct ResolvedStack;

// Live memory of one stack when a breakdown was made.
struct BreakdownEntry {
  const ResolvedStack* stack = nullptr;
  std::string api;  // of the first live allocation, like `kind`
  format::Kind kind = format::Kind::kNone;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string pool;  // of the caching allocator that made it for itself; empty: none
};

// The holders of a device's memory at one moment: at the highest use, or when an allocation failed.
struct Breakdown {
  CULPRIT_COMPILED_ONCE(Breakdown);
  std::uint32_t process = 0;  // in a merged report: index into Report::job
  bool out_of_memory = false;
  std::optional<unsigned> device;
  std::uint64_t time_ns = 0;
  // Out of memory: the call that failed, and how often it failed.
  std::string api;
  const ResolvedStack* stack = nullptr;
  std::uint64_t asked_bytes = 0;  // 0: not known
  std::uint64_t times = 0;
  format::MemoryReading memory = {};  // of the whole device; total 0: not known
  std::uint64_t live_bytes = 0;       // of this process
  std::uint64_t live_count = 0;
  std::vector<BreakdownEntry> entries;  // most bytes first
  std::uint64_t other_bytes = 0;        // of stacks that are not in `entries`
  std::uint64_t other_count = 0;
  std::uint64_t other_stacks = 0;
  std::vector<CacheInside> caches;  // out of memory: the frameworks' account of their memory on this device
  std::vector<GpuCharges> charges;  // likewise: NVML's answer to `culprit run`; at most one
};

}  // namespace culprit::report
