// The report of one process (or several merged ones) as plain data: filled by the judge, written by the renderers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_format.h"
#include "report/dump/process_status.h"
#include "report/model/cause.h"
#include "report/model/pool.h"
#include "report/model/stacks.h"

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

// One fact about why memory was not freed. A group keeps all its evidence; its cause is the first, in the order of
// Cause, that any of it points to.
struct Evidence {
  EvidenceType type = EvidenceType::kFailedFree;
  Cause points_to = Cause::kNeverFreed;  // kNeverFreed: for information, decides nothing
  std::string api;  // of the refused (failed free) or failed (error return) call, or of the one that ended the context
  int code = 0;     // failed free, error return: CUresult
  std::string code_name;  // "CUDA_ERROR_INVALID_VALUE"
  std::uint64_t handle = 0;
  std::uint64_t count = 0;
  std::uint64_t time_ns = 0;             // of the last event
  std::uint64_t first_ns = 0;            // of the first event; 0: not known
  const ResolvedStack* stack = nullptr;  // of the refused, failed or ending call, or of the throw

  // Exception.
  std::string exception;  // type, demangled; empty: not known
  std::string what;       // of the first exception; empty when it is not a std::exception
  const ResolvedStack* caught = nullptr;
  bool uncaught = false;   // the exception terminated the program
  bool forced = false;     // not an exception: pthread_exit or cancellation unwound the thread
  bool rethrown = false;   // passed on by `throw;` or std::rethrow_exception
  bool ambiguous = false;  // the catching function has another handler of the same type, which may be the real one
  // Exception, error return: the frame that owned the memory and was left; nullptr: not known.
  const Frame* owner = nullptr;

  bool injected = false;    // error return: culprit made the call fail
  std::uint64_t bytes = 0;  // error return: the size of the failed allocation

  const Variable* variable = nullptr;  // held
  std::uint64_t offset = 0;            // held: offset of the (first) pointer in the module's file

  std::optional<ThreadInfo> thread;  // exception, error return: of the event; thread ended: the ended thread
  std::vector<format::Ref> records;  // the records in the dump
};

// The part of a group that was allocated in one mark and NVTX range, the innermost ones open in the thread.
struct MarkShare {
  std::string mark;   // empty: no mark was open
  std::string range;  // empty: no range was open
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

// A name that the program gave to a stretch of time or to a moment.
struct MarkInfo {
  std::string name;
  format::MarkKind kind = format::MarkKind::kNone;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t count = 0;
};

// The part of a group that belongs to one of several processes.
struct Share {
  std::uint32_t process = 0;  // index into Report::job
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

// How a leak compares with its entry in the baseline.
enum class Comparison { kNone, kNew, kGrown, kKnown };

// A group of allocations or other resources with one stack, kind, device, API and cause.
struct Group {
  std::string id;  // 16 hex digits, the same in every run of the same program
  format::Kind kind = format::Kind::kNone;
  std::string api;         // as in the user's code: "cudaMalloc", or "cuMemAlloc" for a direct driver call
  std::string driver_api;  // "cuMemAlloc_v2"
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::optional<unsigned> device;  // ordinal; empty: no device, or several in `devices`
  Cause cause = Cause::kNeverFreed;
  std::vector<Evidence> evidence;
  std::vector<ThreadInfo> threads;
  std::vector<MarkShare> marks;        // largest first; allocations outside of any mark are left out
  std::vector<std::uint64_t> handles;  // the first few
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t ended_bytes = 0;        // the part of `bytes` that was allocated by threads that have ended
  std::uint64_t made = 0;               // calls with this stack over the whole run; 0: not known, or none was freed
  std::uint64_t freed = 0;              // how many of those were freed again
  std::uint64_t mappings = 0;           // VMM physical memory
  std::uint64_t handle_references = 0;  // VMM physical memory
  const Pool* pool = nullptr;           // the caching allocator that it is a segment of; nullptr: none
  std::string library;                  // the library that made it for itself; empty: the program
  const ResolvedStack* stack = nullptr;
  std::vector<format::Ref> stacks;  // all stacks of the dump in this group
  // In a merged report, instead of `device`, `threads` and `handles`: the share of each process in the order of
  // Report::job, all devices, and the threads (those in most processes first). Empty in a report of one process.
  std::vector<Share> shares;
  std::vector<unsigned> devices;
  std::vector<ThreadSum> thread_sums;
  Comparison comparison = Comparison::kNone;
  std::uint64_t baseline_bytes = 0;  // with kGrown and kKnown: the bytes in the baseline, of all processes
};

struct ErrorGroup {
  format::ErrorType type = format::ErrorType::kNone;
  std::string api;
  std::string driver_api;
  int code = 0;
  std::string code_name;
  format::Kind kind = format::Kind::kNone;
  std::uint64_t handle = 0;
  std::uint64_t allocation_handle = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::optional<unsigned> device;
  std::optional<ThreadInfo> thread;
  std::optional<ThreadInfo> free_thread;
  const ResolvedStack* stack = nullptr;             // of the refused call
  const ResolvedStack* allocation_stack = nullptr;  // empty when unknown
  const ResolvedStack* free_stack = nullptr;        // double free: of the first one
};

// Memory in use by the process on a device over the run; `buckets` is empty when that is not known.
struct TimeLine {
  std::uint64_t bucket_ns = 0;  // bucket i begins at i * bucket_ns
  std::vector<format::TimeLineBucket> buckets;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_ns = 0;
};

struct DeviceInfo {
  unsigned ordinal = 0;
  std::string uuid;  // "GPU-5f3a..." or "MIG-..."
  std::string name;
  bool mig = false;
  format::MemoryReading first = {};
  format::MemoryReading peak = {};
  format::MemoryReading exit = {};
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t pool_reserved = 0;
  std::uint64_t pool_used = 0;
  TimeLine time_line;
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
  std::uint32_t pid = 0;
  std::uint32_t parent_pid = 0;
  std::string host;
  std::optional<unsigned> rank;  // in the parallel job
  unsigned job_size = 0;         // ranks of the job; 0: not known
  std::string executable;
  std::vector<std::string> command;
  std::string working_directory;
  std::uint64_t start_realtime_ns = 0;
  std::uint64_t end_time_ns = 0;
  ProcessStatus status;
  std::string tool_version;
  int driver_version = 0;
  std::optional<std::string> attached;  // "redirect" or "cupti": recording began with `culprit attach`
};

struct Dropped {
#define COUNTER_DROPPED(name, field, ...) std::uint64_t field = 0;
#define COUNTER_DETAIL(name) std::uint64_t name = 0;
#include "interpose/format/counters.def"
  std::string reason;  // why recording stopped and how to avoid that; empty: it did not stop
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
  std::uint64_t bytes = 0;  // of module data read
};

struct Total {
  std::optional<unsigned> device;
  format::Kind kind = format::Kind::kNone;
  std::uint64_t bytes = 0;
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
  std::uint64_t errors = 0;     // refused and bad frees
  std::uint64_t resources = 0;  // streams, events, contexts, ...: only the program's own
#define COUNTER_SUMMARY(name) std::uint64_t name = 0;
#define COUNTER_CALLS(name) std::uint64_t name = 0;
#include "interpose/format/counters.def"
  std::vector<CacheTotal> caches;  // largest first
  std::vector<Total> totals;       // of the leaks, by device and kind
};

// What a framework itself reported about the segments of its cache, in a Python program.
struct CacheInside {
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t live_bytes = 0;
  };
  // Live tensors with the same allocating line and the same holder.
  struct Place {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    std::string file;  // empty: not recorded
    std::uint64_t line = 0;
    std::string function;
    std::string held_by;  // described in words; empty: not known
  };
  std::string pool;      // the name of the Pool
  bool at_exit = false;  // recorded when the interpreter began to end: Python freed its objects afterwards
  std::uint64_t live_bytes = 0;
  std::uint64_t idle_bytes = 0;
  std::vector<Segment> segments;  // those that are also in the dump; empty: only the sums are known
  std::vector<Place> largest;     // largest first
  std::string hint;               // how to get more detail; empty: there is no more
};

// Memory that was found but is not shown.
struct HiddenTotal {
  std::uint64_t groups = 0;
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
  void add(const Group& group) {
    ++groups;
    allocations += group.count;
    bytes += group.bytes;
  }
};

// What one line of a suppressions file has hidden.
struct SuppressionUse {
  std::string path;
  std::uint64_t line = 0;
  std::string text;  // "leak:foo"
  HiddenTotal hidden;
};

// The comparison with a baseline, in numbers of groups.
struct BaselineResult {
  std::string path;
  std::uint64_t added = 0;
  std::uint64_t grown = 0;
  std::uint64_t known = 0;
  std::vector<std::string> gone;  // ids that leaked in no process; set in the last report
};

// Live memory of one stack when a picture was taken.
struct PictureEntry {
  const ResolvedStack* stack = nullptr;
  std::string api;  // of the first live allocation, like `kind`
  format::Kind kind = format::Kind::kNone;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

// The holders of a device's memory at one moment: at the highest use, or when an allocation failed.
struct Picture {
  std::uint32_t process = 0;  // in a merged report: index into Report::job
  bool out_of_memory = false;
  std::optional<unsigned> device;
  std::uint64_t time_ns = 0;
  // Out of memory: the call that failed, and how often it failed.
  std::string api;
  const ResolvedStack* stack = nullptr;
  std::uint64_t asked_bytes = 0;
  std::uint64_t times = 0;
  format::MemoryReading memory = {};  // of the whole device; total 0: not known
  std::uint64_t live_bytes = 0;       // of this process
  std::uint64_t live_count = 0;
  std::vector<PictureEntry> entries;  // most bytes first
  std::uint64_t other_bytes = 0;      // of stacks that are not in `entries`
  std::uint64_t other_count = 0;
  std::uint64_t other_stacks = 0;
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
  std::string dump_path;
  std::uint32_t pid = 0;
  std::string host;
  std::optional<unsigned> rank;
  unsigned job_size = 0;
  std::uint64_t start_realtime_ns = 0;
  Ended ended = Ended::kUnknown;
  int exit_status = 0;
  std::uint64_t leaked_bytes = 0;  // as in Summary
  std::uint64_t leaked_allocations = 0;
};

// A library that called the driver past the hooks.
struct UnseenUser {
  std::string path;
  bool own_driver = false;  // loaded with dlmopen; else it looked up the driver before the hooks existed
};

struct Report {
  std::string dump_path;
  ProcessInfo process;          // the first of `job` in a merged report
  std::vector<JobProcess> job;  // the merged processes, by rank; empty: a report of one process
  bool hook_called = false;
  std::vector<UnseenUser> unseen;
#define COUNTER_REPORT(name) std::uint64_t name = 0;
#include "interpose/format/counters.def"
  // Set when CULPRIT_FAIL was set.
  std::vector<AllocationSite> sites;
  const ResolvedStack* exit_stack = nullptr;  // where exit() was called, with start-up code; nullptr: not known
  std::vector<DeviceInfo> devices;
  Summary summary;
  // Failures with out of memory first, beginning with the last one of each process; then the peaks, by device.
  std::vector<Picture> pictures;
  Dropped dropped;
  HolderSearchInfo holder_search;
  RecordingInfo recording;
  std::uint64_t snapshot_ns = 0;               // 0: the dump itself; else the time of the copy
  std::vector<MarkInfo> marks;                 // in the order of their first times
  std::string since_mark;                      // the lists contain only what came after this mark; empty: everything
  std::optional<std::uint64_t> since_mark_ns;  // time of that mark; empty: the process has no such mark
  std::vector<Group> leaks;                    // worst first
  std::vector<Group> library;                  // held by libraries for themselves, not counted
  std::vector<Group> resources;
  std::vector<CacheInside> caches_inside;  // only of allocators that reported it
  std::vector<ErrorGroup> errors;
  std::vector<SuppressionUse> suppressed;  // in the order of the files' lines
  std::optional<HiddenTotal> filtered;     // what filters removed; empty: no filters
  std::optional<BaselineResult> baseline;  // empty: not compared
  std::vector<std::string> notes;
  std::shared_ptr<const void> stacks;                          // owns the stacks
  std::shared_ptr<const std::deque<Variable>> python_holders;  // owns the variables of Python
};

// "epoch 3", "epoch 3 / forward" (the mark, then the NVTX range), "(no mark)".
std::string mark_text(const MarkShare& share);
// "mark", "range", "moment": the kind in the JSON report.
const char* mark_kind_name(format::MarkKind kind);

// "done", "off", ...: how the search for holders went, in the JSON report.
const char* holder_search_name(format::HolderSearch state);
// "double-free": the names in the JSON report.
const char* error_type_name(format::ErrorType type);

}  // namespace culprit::report
