// One process's report, ready to be written out in any format: what the judge makes and the renderers show.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_format.h"
#include "report/dump/process_status.h"
#include "report/judge/pool_rules.h"
#include "report/model/stacks.h"

namespace culprit {

// Why memory was not given back. A group has the first of these that holds, in this order; the rest is evidence.
enum class Cause {
  kCached,           // a segment of a known pooling allocator
  kFailedFree,       // a free of it was refused
  kHeld,             // a global still has the pointer
  kException,        // an exception left the function that owned it
  kErrorReturn,      // left behind after a failed call
  kContextTeardown,  // went with its context
  kNeverFreed,       // nothing more is known
};

struct ThreadInfo {
  std::uint32_t tid = 0;
  std::string name;
  bool ended = false;
  std::uint64_t ended_ns = 0;
};

// Threads of several processes, by name: a number tells nothing beyond its process.
struct ThreadSum {
  std::string name;
  std::uint64_t threads = 0;
  std::uint64_t ended = 0;  // of those
  std::uint64_t processes = 0;
};

enum class EvidenceType { kFailedFree, kHeld, kException, kErrorReturn, kContextTeardown, kThreadEnded };

// One thing that is known of why memory was not given back. All of it stands beside the cause, which is the first in
// the order of Cause that any of it points to.
struct Evidence {
  EvidenceType type = EvidenceType::kFailedFree;
  Cause points_to = Cause::kNeverFreed;  // kNeverFreed: only told, decides nothing
  std::string api;  // failed free: the refused call; error return: the failed one; teardown: what ended the context
  int code = 0;     // failed free, error return: CUresult
  std::string code_name;  // "CUDA_ERROR_INVALID_VALUE"
  std::uint64_t handle = 0;
  std::uint64_t count = 0;
  std::uint64_t time_ns = 0;             // of the last of these
  std::uint64_t first_ns = 0;            // of the first of them; 0: not known
  const ResolvedStack* stack = nullptr;  // of the refused, failed or ending call; of the throw

  // Exception.
  std::string exception;  // type, demangled; empty: not known
  std::string what;       // of the first of these; empty when it is no std::exception
  const ResolvedStack* caught = nullptr;
  bool uncaught = false;   // the program was terminated
  bool forced = false;     // no exception: pthread_exit or cancellation unwound the thread
  bool rethrown = false;   // passed on by `throw;` or std::rethrow_exception
  bool ambiguous = false;  // another handler of the same type in the catching function may be the one
  // Exception, error return: the frame that had the memory and was left; nullptr: not known.
  const Frame* owner = nullptr;

  bool injected = false;    // error return: culprit made the call fail
  std::uint64_t bytes = 0;  // error return: asked for by a failed allocation

  const Variable* variable = nullptr;  // held
  std::uint64_t offset = 0;            // held: where in the module's file the (first) pointer is

  std::optional<ThreadInfo> thread;  // exception, error return: that saw it; thread ended: that thread
  std::vector<format::Ref> records;  // what in the dump says so
};

// The part of a group that was allocated in one mark and NVTX range, the innermost that were open in the thread.
struct MarkShare {
  std::string mark;   // empty: none was open
  std::string range;  // likewise
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

// What one of several processes has of a group.
struct Share {
  std::uint32_t process = 0;  // index into Report::job
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

// How a leak compares with the baseline that it was held against.
enum class Comparison { kNone, kNew, kGrown, kKnown };

// A group of allocations or other resources with one stack, kind, device, API and cause.
struct Group {
  std::string id;  // 16 hex digits, the same in every run of the same program
  format::Kind kind = format::Kind::kNone;
  std::string api;         // as the user wrote it: "cudaMalloc", or "cuMemAlloc" when no runtime call led there
  std::string driver_api;  // "cuMemAlloc_v2"
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::optional<unsigned> device;  // ordinal; empty: none, or several of `devices`
  Cause cause = Cause::kNeverFreed;
  std::vector<Evidence> evidence;
  std::vector<ThreadInfo> threads;
  std::vector<MarkShare> marks;        // largest first; what was made in none is not in it
  std::vector<std::uint64_t> handles;  // the first few
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t ended_bytes = 0;        // of `bytes`, made by threads that have ended
  std::uint64_t made = 0;               // calls with this stack over the whole run; 0: not known, or none was freed
  std::uint64_t freed = 0;              // how many of those were freed again
  std::uint64_t mappings = 0;           // VMM physical memory
  std::uint64_t handle_references = 0;  // VMM physical memory
  const Pool* pool = nullptr;           // whose segment it is; nullptr: of no caching allocator
  std::string library;                  // which library made it for itself; empty: the program
  const ResolvedStack* stack = nullptr;
  std::vector<format::Ref> stacks;  // the different ones of the dump that became this group
  // Of several processes: what each of them has, in the order of Report::job, on which devices, and in which threads
  // (in most processes first), instead of `device`, `threads` and `handles`. Empty: of one.
  std::vector<Share> shares;
  std::vector<unsigned> devices;
  std::vector<ThreadSum> thread_sums;
  Comparison comparison = Comparison::kNone;
  std::uint64_t baseline_bytes = 0;  // with kGrown and kKnown: what the baseline has, of all processes
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

// What the process had in use on a device over the run; `buckets` is empty when that is not known.
struct TimeLine {
  std::uint64_t bucket_ns = 0;  // bucket i is about the time from i * bucket_ns on
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

// A stack that allocates memory, by a name that CULPRIT_FAIL takes. Known only when CULPRIT_FAIL asked for it.
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
  std::optional<unsigned> rank;  // in its parallel job
  unsigned job_size = 0;         // ranks of the job; 0: not known
  std::string executable;
  std::vector<std::string> command;
  std::string working_directory;
  std::uint64_t start_realtime_ns = 0;
  std::uint64_t end_time_ns = 0;
  ProcessStatus status;
  std::string tool_version;
  int driver_version = 0;
  std::optional<std::string> attached;  // "redirect" or "cupti": `culprit attach` came to the running process
};

struct Dropped {
  std::uint64_t allocations = 0;
  std::uint64_t stacks = 0;
  std::uint64_t others = 0;
  std::uint64_t handler_calls = 0;  // CUDA calls of signal handlers that interrupted the tracker
  std::uint64_t left_hooks = 0;     // calls left by siglongjmp or cancellation
  std::uint64_t lock_timeouts = 0;  // events that could not wait longer for a lock of the tracker
  // Not lost, but poorer: stacks that were shortened because there was no room; stacks that nothing named any more, and
  // whose room was used again, with the calls that made something.
  std::uint64_t merged_stacks = 0;
  std::uint64_t reused_stacks = 0;
  std::uint64_t reused_calls = 0;
  std::string reason;  // why recording stopped and what to do; empty: it did not stop
  std::uint64_t stop_time_ns = 0;
  std::uint64_t total() const { return allocations + stacks + others + handler_calls + left_hooks + lock_timeouts; }
};

// The search for globals that hold what was not freed, at exit.
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

// What one caching allocator keeps.
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
  std::uint64_t thread_ended_bytes = 0;  // of the leaked bytes, made by threads that have ended
  std::uint64_t library_bytes = 0;
  std::uint64_t library_allocations = 0;
  std::uint64_t errors = 0;     // refused and bad frees, each counted
  std::uint64_t resources = 0;  // streams, events, contexts, ...: the program's own
  std::uint64_t late_frees = 0;
  std::uint64_t unknown_frees = 0;
  std::uint64_t unknown_refusals = 0;  // refused frees of what may have been made before recording: no errors
  std::uint64_t allocations = 0;       // calls over the whole run
  std::uint64_t frees = 0;
  // CULPRIT_VERIFY_STACKS=1: remembered stacks that were compared with a real unwind, and current contexts that were
  // asked for again; how many of them were wrong.
  std::uint64_t stacks_verified = 0;
  std::uint64_t stack_mismatches = 0;
  std::uint64_t contexts_verified = 0;
  std::uint64_t context_mismatches = 0;
  std::vector<CacheTotal> caches;  // largest first
  std::vector<Total> totals;       // of the leaks, by device and kind
};

// What a framework itself said of the segments of its cache, in a Python program.
struct CacheInside {
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t live_bytes = 0;
  };
  // Live tensors that one line allocated and one thing holds.
  struct Place {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    std::string file;  // empty: not recorded
    std::uint64_t line = 0;
    std::string function;
    std::string held_by;  // in words; empty: not known
  };
  std::string pool;      // the name of the Pool
  bool at_exit = false;  // said when the interpreter began to end: Python itself freed its objects afterwards
  std::uint64_t live_bytes = 0;
  std::uint64_t idle_bytes = 0;
  std::vector<Segment> segments;  // those that the dump has too; empty: only the sums are known
  std::vector<Place> largest;     // largest first
  std::string hint;               // how to know more; empty: this is all
};

// Memory that was found and is not shown.
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

// What one line of a suppressions file hid.
struct SuppressionUse {
  std::string path;
  std::uint64_t line = 0;
  std::string text;  // "leak:foo"
  HiddenTotal hidden;
};

// How the leaks compare with a baseline, as numbers of groups.
struct BaselineResult {
  std::string path;
  std::uint64_t added = 0;
  std::uint64_t grown = 0;
  std::uint64_t known = 0;
  std::vector<std::string> gone;  // ids that no process leaked; the last report has them
};

// What one stack had live when a picture was taken.
struct PictureEntry {
  const ResolvedStack* stack = nullptr;
  std::string api;  // of the first live allocation, like `kind`
  format::Kind kind = format::Kind::kNone;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

// Who held the memory of a device at one moment: when use was higher than ever before, or when an allocation failed.
struct Picture {
  std::uint32_t process = 0;  // in a report of several: whose, an index into Report::job
  bool out_of_memory = false;
  std::optional<unsigned> device;
  std::uint64_t time_ns = 0;
  // Out of memory: the call that failed, and how often it did.
  std::string api;
  const ResolvedStack* stack = nullptr;
  std::uint64_t asked_bytes = 0;
  std::uint64_t times = 0;
  format::MemoryReading memory = {};  // of the whole device; total 0: not known
  std::uint64_t live_bytes = 0;       // of this process
  std::uint64_t live_count = 0;
  std::vector<PictureEntry> entries;  // most bytes first
  std::uint64_t other_bytes = 0;      // of stacks that are not among them
  std::uint64_t other_count = 0;
  std::uint64_t other_stacks = 0;
};

// A stretch in which allocations were recorded.
struct RecordedSpan {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;        // 0: it goes on
  std::optional<unsigned> device;  // whose memory was read when it began; empty: none's
  bool read_at_begin = false;      // else at the first allocation in it
  std::uint64_t used_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// Recording that was not on all the time.
struct RecordingInfo {
  bool off = false;                  // as it was switched last
  std::uint64_t last_switch_ns = 0;  // 0: never
  std::uint64_t process_age_ns = 0;  // how long the process had run when the dump began; 0: not known
  std::vector<RecordedSpan> spans;   // empty: on from the first CUDA call to the end, unless `off`
};

// One of the processes that a report of several is made of.
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

// A library that called the driver where it could not be seen.
struct UnseenUser {
  std::string path;
  bool own_driver = false;  // it was loaded with dlmopen; else it found the driver's functions before the hooks
};

struct Report {
  std::string dump_path;
  ProcessInfo process;          // the first of `job` when there are several
  std::vector<JobProcess> job;  // the processes that were merged into this report, by rank; empty: it is of one
  bool hook_called = false;
  std::vector<UnseenUser> unseen;
  // Known when CULPRIT_FAIL was set.
  std::uint64_t injected_failures = 0;  // calls that were made to fail
  std::vector<AllocationSite> sites;
  const ResolvedStack* exit_stack = nullptr;  // where exit() was called, start-up code included; nullptr: not known
  std::vector<DeviceInfo> devices;
  Summary summary;
  // Out of memory first, in each process the last one of them first; then the peaks, by device.
  std::vector<Picture> pictures;
  Dropped dropped;
  HolderSearchInfo holder_search;
  RecordingInfo recording;
  std::uint64_t snapshot_ns = 0;               // 0: the dump itself; else a copy, made then
  std::uint64_t dropped_marks = 0;             // that found no room
  std::vector<MarkInfo> marks;                 // in the order of their first times
  std::string since_mark;                      // only what came after this mark is in the lists; empty: everything
  std::optional<std::uint64_t> since_mark_ns;  // when that was; empty: the process has no such mark
  std::vector<Group> leaks;                    // worst first
  std::vector<Group> library;                  // what libraries hold for themselves, not counted
  std::vector<Group> resources;
  std::vector<CacheInside> caches_inside;  // of those allocators that said something
  std::vector<ErrorGroup> errors;
  std::vector<SuppressionUse> suppressed;  // in the order of the lines
  std::optional<HiddenTotal> filtered;     // what filters took out; empty: there were none
  std::optional<BaselineResult> baseline;  // empty: not compared
  std::vector<std::string> notes;
  std::shared_ptr<const void> stacks;                          // owns what the stack pointers point to
  std::shared_ptr<const std::deque<Variable>> python_holders;  // likewise
};

// "epoch 3", "epoch 3 / forward" (the mark, then the NVTX range), "(no mark)".
std::string mark_text(const MarkShare& share);
// "mark", "range", "moment": the kind in the JSON report.
const char* mark_kind_name(format::MarkKind kind);

// "never-freed", "failed-free": the names in the JSON report.
const char* cause_name(Cause cause);
// "failed-free", "exception": the type of a piece of evidence in the JSON report.
const char* evidence_name(EvidenceType type);
// "done", "off", ...: how the search for holders went, in the JSON report.
const char* holder_search_name(format::HolderSearch state);
// "double-free": the names in the JSON report.
const char* error_type_name(format::ErrorType type);

}  // namespace culprit
