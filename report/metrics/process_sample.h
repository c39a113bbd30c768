// A process at one moment, in numbers: what its metrics are made of. Its size is limited, whatever the dump has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/doctor/gpu_users.h"
#include "report/model/cache_bytes.h"

namespace culprit::report {

struct Frame;
struct Report;

struct SampleLimits {
  std::size_t stacks = 20;   // with a series of their own
  std::size_t series = 128;  // of each list
};

// Memory of one device, kind and cause. Beyond the limit of series all three are "other".
struct MemorySum {
  std::string device;  // ordinal, or "host"
  std::string kind;
  std::string cause;  // "" for cached memory
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

// Memory of the leaks with one id. All that have no entry of their own are one entry with the id "other".
struct StackSum {
  std::string id;
  std::string function;
  std::string place;  // "solver.cu:31"; "": not known
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

// A row of `culprit watch`: what one stack has of one kind.
struct WatchedSum {
  std::string id;
  std::string kind;
  std::string function;  // "": no call explains the memory
  std::string place;
  std::string verdict;  // verdict_name()
  bool objects = false;
  double per_minute = 0;  // bytes, or objects
};

// A part of the balance of a device (model/balance.def).
struct PartSum {
  std::string device;
  std::string part;
  std::int64_t bytes = 0;
};

struct SampledDevice {
  std::string device;
  std::string uuid;
  std::string name;
  std::optional<std::uint64_t> charged;  // NVML's figure for the process
};

struct ProcessSample {
  std::uint32_t pid = 0;
  bool readable = false;  // false: nothing below is known
  std::string executable;
  std::string host;
  std::string rank;  // "": none
  std::string version;
  std::uint64_t start_ns = 0;  // CLOCK_REALTIME
  bool running = false;
  bool recording = false;
  std::uint64_t allocations = 0;  // calls since the recording began, as the next three
  std::uint64_t frees = 0;
  std::uint64_t failed_allocations = 0;
  std::uint64_t not_recorded = 0;
  std::vector<MemorySum> live;      // without cached memory
  std::vector<MemorySum> cached;    // segments of caching allocators
  std::vector<CacheBytes> insides;  // of PyTorch's cache, by its own counts; empty: none, or not readable
  std::vector<StackSum> stacks;     // of both, most bytes first, "other" last
  std::vector<PartSum> parts;
  std::vector<SampledDevice> devices;
  // Of the looks so far; empty before the 24th, and where there is only one.
  std::vector<std::pair<std::string, std::uint64_t>> verdicts;  // rows by their verdict
  std::vector<WatchedSum> watched;                              // those that leak first
  double watched_seconds = 0;
  std::uint64_t watched_looks = 0;  // 0: there is only one look, and no verdict
  std::uint64_t not_watched = 0;    // rows for which there was no room
};

// One look at all processes.
struct Observation {
  std::vector<ProcessSample> processes;  // each pid once
  std::uint64_t left_out = 0;            // processes that record, beyond the limit
  double seconds = 0;                    // that the look took
};

// The labels that name a stack by one of its frames.
void name_by(const Frame& frame, std::string* function, std::string* place);

// `users`: NVML's figures. Texts are printable.
ProcessSample sample_of(const Report& report, const GpuUsers& users, const SampleLimits& limits);

}  // namespace culprit::report
