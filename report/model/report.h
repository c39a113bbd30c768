// The report of one process, or of several merged ones, as plain data: filled by the judge, written by the renderers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/base/compiled_once.h"
#include "report/model/audit.h"
#include "report/model/balance.h"
#include "report/model/breakdown.h"
#include "report/model/cache_inside.h"
#include "report/model/failed_allocation.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/marked_memory.h"
#include "report/model/marks.h"
#include "report/model/overwritten.h"
#include "report/model/run_facts.h"
#include "report/model/run_record.h"
#include "report/model/selection_result.h"
#include "report/model/sharing.h"
#include "report/model/summary.h"

namespace culprit::report {

struct Report {
  CULPRIT_COMPILED_ONCE(Report);
  std::string dump_path;
  ProcessInfo process;          // the first of `job` in a merged report
  std::vector<JobProcess> job;  // the merged processes, by rank; empty: a report of one process
  bool hook_called = false;
  std::vector<UnseenUser> unseen;
  Audit audit;
  std::string missing_ranks;            // the ranks of the job without a dump, as a sentence; empty: none
  std::uint64_t partly_recorded = 0;    // processes that switched recording off and on, or never on again
  std::vector<RunRecord> runs;          // only of a merged report: the runs of its processes, by id
  std::vector<std::string> not_joined;  // sentences: what may be missing beside the processes of the report
#define COUNTER_REPORT(name) std::uint64_t name = 0;
#include "interpose/format/counters.def"
  // Set when CULPRIT_FAIL was set.
  std::vector<AllocationSite> sites;
  const ResolvedStack* exit_stack = nullptr;  // where exit() was called, with start-up code; nullptr: not known
  std::vector<DeviceInfo> devices;
  Summary summary;
  // Failures with out of memory first, beginning with the last one of each process; then the peaks, by device.
  std::vector<Breakdown> breakdowns;
  // Memory that was freed only after Python began to end: what each stack had then, and no longer had at the end. One
  // of each device, with entries only where memory was freed.
  std::vector<Breakdown> freed_at_end;
  std::vector<Balance> balances;                   // by process and device: at exit, at out of memory, at the peak
  std::vector<format::BalanceRecord> present_use;  // of a process that runs, by device: see balance_now()
  std::vector<CallCharge> call_charges;            // most bytes first
  std::vector<ContextInfo> contexts;               // in the order of their making
  std::vector<Sharing> sharings;                   // of each process
  std::vector<SharedMemory> shared;                // joined from those of all processes; what stays first
  std::vector<Overwritten> overwritten;            // most bytes first
  Dropped dropped;
  HolderSearchInfo holder_search;
  RecordingInfo recording;
  std::uint64_t snapshot_ns = 0;     // 0: the dump itself; else the time of the copy
  std::vector<MarkInfo> marks;       // in the order of their first times
  MarkBound since_mark;              // the lists contain only events after this mark,
  MarkBound before_mark;             // and before this one
  std::vector<MarkedMemory> marked;  // at marks with bytes, those that are kept, oldest first
  std::uint64_t marked_taken = 0;    // with those that are not kept
  std::vector<Group> live_now;       // what is live in the end; filled only where LoadOptions::marked is set
  std::vector<Group> leaks;          // worst first
  std::vector<Group> library;        // held by libraries for themselves, not counted
  std::vector<Group> resources;
  std::vector<CacheInside> caches_inside;  // only of allocators that reported it
  std::vector<CacheInside> ran_out;        // likewise, at the last moment at which memory ran out
  std::uint64_t live_cached_bytes = 0;     // of live tensors, in `caches_inside` or those of the merged reports
  std::uint64_t caches_unseen = 0;         // processes with a cache of PyTorch's or CuPy's that did not report it
  std::uint64_t python_ends_unseen = 0;    // processes with an interpreter, of whose end nothing is known
  std::string python_unseen;               // why Python's objects were not looked at before its end; "" = they were
  std::vector<ErrorGroup> errors;
  std::vector<FailedAllocation> failed_allocations;  // most frequent first
  std::vector<SuppressionUse> suppressed;            // in the order of the files' lines
  std::optional<HiddenTotal> filtered;               // removed by filters; empty: no filters
  std::optional<BaselineResult> baseline;            // empty: not compared
  std::vector<std::string> notes;
  std::shared_ptr<const void> stacks;                          // owns the stacks
  std::set<std::shared_ptr<const void>> shared_stacks;         // own those of other reports in `shared`
  std::shared_ptr<const std::deque<Variable>> python_holders;  // owns the variables of Python
};

}  // namespace culprit::report
