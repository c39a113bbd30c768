// Groups of allocations, other resources and wrong frees: the entries of a report's lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"
#include "interpose/format/dump_records.h"
#include "report/base/compiled_once.h"
#include "report/dump/single_allocation.h"
#include "report/model/evidence.h"
#include "report/model/marks.h"
#include "report/model/regions.h"
#include "report/model/thread_info.h"

namespace culprit::report {

struct Pool;
struct ResolvedStack;

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
  CULPRIT_COMPILED_ONCE(Group);
  std::string id;  // 16 hex digits, the same in every run of the same program; others may have it, too
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
  std::vector<SingleAllocation> each;  // those with bytes; filled only where LoadOptions::each asks for it
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t ended_bytes = 0;  // the part of `bytes` that was allocated by threads that have ended
  std::uint64_t made = 0;         // calls with this stack over the whole run; 0: not known, or none was freed
  std::uint64_t freed = 0;        // how many of those were freed again
  // Announced regions: their sizes, which are no part of `bytes`, and the allocation that the first one lies in.
  std::uint64_t region_bytes = 0;
  Outside outside;
  std::vector<NameShare> names;         // that the program gave to them
  std::vector<NameShare> region_names;  // of the regions in their memory
  std::vector<HeapUse> heaps;           // in its memory
  std::uint64_t mappings = 0;           // VMM physical memory
  std::uint64_t handle_references = 0;  // VMM physical memory
  const Pool* pool = nullptr;           // the caching allocator that it is a segment of; nullptr: none
  std::string library;                  // the library that made it for itself; empty: the program
  const ResolvedStack* stack = nullptr;
  std::vector<format::Ref> stacks;  // all stacks of the dump in this group
  // In a merged report, instead of `device`, `threads`, `handles` and `each`: the share of each process in the order of
  // Report::job, all devices, and the threads (those in most processes first). Empty in a report of one process.
  std::vector<Share> shares;
  std::vector<unsigned> devices;
  std::vector<ThreadSum> thread_sums;
  Comparison comparison = Comparison::kNone;
  // With kGrown and kKnown: what the baseline has for the id, of all processes.
  std::uint64_t baseline_bytes = 0;
  std::uint64_t baseline_count = 0;
  std::string baseline_comment;
};

struct ErrorGroup {
  CULPRIT_COMPILED_ONCE(ErrorGroup);
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

}  // namespace culprit::report
