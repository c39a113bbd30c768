// Facts about a run as a whole: the process, its devices, and how much of it was recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_file.h"
#include "interpose/format/dump_records.h"
#include "report/base/compiled_once.h"
#include "report/dump/process_status.h"

namespace culprit::report {

struct ResolvedStack;

// Memory in use by the process on a device over the run; `buckets` is empty when that is not known.
struct TimeLine {
  std::uint64_t bucket_ns = 0;  // bucket i begins at i * bucket_ns
  std::vector<format::TimeLineBucket> buckets;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_ns = 0;
};

struct DeviceInfo {
  CULPRIT_COMPILED_ONCE(DeviceInfo);
  unsigned ordinal = 0;
  std::string uuid;  // "GPU-5f3a..." or "MIG-..."
  std::string name;
  bool mig = false;
  format::MemoryReading first = {};
  format::MemoryReading peak = {};
  format::MemoryReading exit = {};
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
  bool pool_known = false;
  std::uint64_t pool_reserved = 0;
  std::uint64_t pool_used = 0;
  TimeLine time_line;
  // DeviceRecord's; 0: not known.
  std::uint32_t made_stretches = 0;
  std::uint32_t launch_stretches = 0;
  std::uint32_t last_made = 0;
};

// A stack that allocates memory, under a name for CULPRIT_FAIL. Recorded only when CULPRIT_FAIL asked for it.
struct AllocationSite {
  std::uint64_t site = 0;
  std::uint64_t number = 0;  // of its first call, among the process's allocation calls
  std::uint64_t calls = 0;
  std::string api;
  const ResolvedStack* stack = nullptr;
};

struct ProcessInfo {
  CULPRIT_COMPILED_ONCE(ProcessInfo);
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::string host;
  std::optional<unsigned> rank;  // in the parallel job
  unsigned job_size = 0;         // ranks of the job; 0: not known
  std::string executable;
  std::vector<std::string> command;
  std::string working_directory;
  bool of_this_machine = false;  // surely: see is_surely_of_this_machine()
  std::uint64_t start_realtime_ns = 0;
  std::uint64_t end_time_ns = 0;
  ProcessStatus status;
  std::string tool_version;
  int driver_version = 0;
  std::uint64_t attach_unsearched_bytes = 0;  // memory that may hold addresses of the driver
  std::optional<std::string> attached;        // "redirect" or "cupti": recording began with `culprit attach`
};

struct Dropped {
#define COUNTER_DROPPED(name, field, ...) std::uint64_t field = 0;
#define COUNTER_DETAIL(name) std::uint64_t name = 0;
#include "interpose/format/counters.def"
  std::string reason;  // why recording stopped and how to avoid that; empty: it did not stop
  // Of a process without a dump: `reason` goes on behind "the process", and is no reason why it recorded nothing.
  bool reason_tells_deed = false;
  std::uint64_t stop_time_ns = 0;
  // Events that were not recorded.
  std::uint64_t total() const {
    std::uint64_t sum = 0;
#define COUNTER_DROPPED(name, field, ...) sum += field;
#include "interpose/format/counters.def"
    return sum;
  }
};

// The search at exit for globals that hold unfreed memory.
struct HolderSearchInfo {
  format::HolderSearch state = format::HolderSearch::kNotRun;
  std::uint64_t ns = 0;
  std::uint64_t bytes = 0;  // of module data and heap read
  format::HeapSearch heap = format::HeapSearch::kNotRun;
  format::LostSearch lost = format::LostSearch::kNotRun;
};

// A period in which allocations were recorded.
struct RecordedSpan {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;        // 0: not over yet
  std::optional<unsigned> device;  // the device whose memory was read; empty: none
  bool read_at_begin = false;      // read at the begin; else at the first allocation
  std::uint64_t used_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// When recording was on, if it was not on all the time.
struct RecordingInfo {
  bool off = false;                  // off after the last switch
  std::uint64_t last_switch_ns = 0;  // 0: never
  std::uint64_t process_age_ns = 0;  // age of the process when the dump began; 0: not known
  std::vector<RecordedSpan> spans;   // empty: on from the first CUDA call to the end, unless `off`
};

// One of the processes in a merged report.
struct JobProcess {
  CULPRIT_COMPILED_ONCE(JobProcess);
  std::string dump_path;
  std::uint32_t pid = 0;
  std::string host;
  std::optional<unsigned> rank;
  unsigned job_size = 0;
  std::uint64_t start_realtime_ns = 0;
  Ended ended = Ended::kUnknown;
  int exit_status = 0;
  int signal = 0;                  // as in ProcessStatus
  bool gone = false;               // likewise
  bool of_this_machine = false;    // as in ProcessInfo; of a merged file's processes never
  std::uint64_t leaked_bytes = 0;  // as in Summary
  std::uint64_t leaked_allocations = 0;
  std::uint64_t peak_live_bytes = 0;  // of the device of which it had most; 0: not known
};

// A library that called the driver past the hooks.
struct UnseenUser {
  std::string path;
  bool own_driver = false;      // loaded with dlmopen; else it looked up the driver before the hooks existed
  bool surplus_driver = false;  // it is itself a driver, one more than the hooks can lead to
};

}  // namespace culprit::report
