// Groups the live allocations of a dump by where they were made. A million allocations cost one pass over the mapped
// file and no heap object each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/dump/region_map.h"
#include "report/dump/single_allocation.h"
#include "report/dump/time_range.h"

namespace culprit::report {

struct AssignedPlace;
struct Variable;

// A word in a chunk of the heap.
struct HeapPlace {
  format::Ref step = 0;  // HeapStepRecord of the chunk, 0 = not in the heap
  std::uint32_t word = 0;
};

// Which variable holds which allocation, sorted by allocation.
struct Held {
  format::Ref allocation = 0;
  std::uint32_t generation = 0;  // of the allocation's record; not held any more if the record's has changed
  std::uint64_t place = 0;       // where the pointer is, or the first one on the way: module and offset, like a frame
  const Variable* variable = nullptr;
  HeapPlace heap;                     // where a chunk of the heap holds it
  const std::string* path = nullptr;  // from the variable to the pointer there, see PointerPathName::exact
  const AssignedPlace* assigned = nullptr;
};

// The part of a group that was allocated under one label.
struct LabelShare {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

struct AllocationGroup {
  format::Ref stack = 0;
  format::Kind kind = format::Kind::kNone;
  std::uint8_t device = format::kNoDevice;
  std::uint16_t api = 0;
  format::Ref evidence = 0;           // EvidenceRecord
  bool free_failed = false;           // a free of these was refused
  bool not_physical = false;          // graph memory that no launch has allocated, or that was freed since; regions
  format::Ref launch = 0;             // graph memory: stack of the launch that allocated it last
  std::uint64_t lost = 0;             // so many to which no pointer was left at exit ...
  std::uint64_t lost_indirectly = 0;  // ... of which memory that is lost too refers to these
  bool lost_now = false;              // in a process that runs, not at exit
  const Variable* holder = nullptr;
  std::uint64_t holder_place = 0;            // of the first allocation
  const std::string* holder_path = nullptr;  // likewise
  const AssignedPlace* assigned = nullptr;   // likewise

  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ended_bytes = 0;  // the part of `bytes` that was allocated by threads that have ended
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::vector<std::uint32_t> threads;  // distinct, in the order in which the process first saw them
  std::vector<std::uint64_t> handles;  // the first kListed
  std::vector<SingleAllocation> each;  // those with bytes; empty unless they are asked for
  std::uint64_t mappings = 0;          // VMM physical memory: sums over the group
  std::uint64_t handle_references = 0;
  std::uint64_t waiting = 0;                   // graph memory that was freed and that a launch may allocate again
  std::uint64_t launches = 0;                  // graph memory: launches that allocated it, the most for one allocation
  std::uint64_t region_bytes = 0;              // regions: their sizes
  OuterAllocation outer;                       // regions: the allocation that the first one lies in
  std::vector<HeapRecordUse> heaps;            // in the memory of the group
  std::map<format::Ref, std::uint64_t> names;  // that the program gave to them; keys are MarkRecords
  std::map<format::Ref, std::uint64_t> region_names;  // of the regions in their memory
  std::map<format::Ref, LabelShare> labels;           // keys are LabelRecords; allocations without a label are left out

  static constexpr std::size_t kListed = 8;
  static constexpr std::size_t kMostThreads = 4096;  // more than any real program; a damaged dump may claim so many
  static constexpr std::uint32_t kMostKnownThreads = 1 << 20;  // more than any real program, too
};

// One group for each stack, kind, device, API, evidence, launch and holding variable, in order of first appearance.
// Allocations that were not made in `range` are left out, and announced regions in no live allocation. A region has the
// device of the allocation that it lies in. `each`: with the single allocations, 16 bytes for each of them.
// `only_lost`: other allocations are left out, and the dump is not asked what is lost.
struct LostNow {
  std::vector<format::HolderRecord> lost;
  std::vector<format::LastHolderRecord> last;
};
using OnlyLost = std::optional<LostNow>;
std::vector<AllocationGroup> group_allocations(const Dump& dump, const std::vector<Held>& held = {},
                                               const TimeRange& range = {}, bool each = false,
                                               const OnlyLost& only_lost = {});

// The results of the search for holders at exit, sorted by allocation, without the variables.
std::vector<Held> read_held(const Dump& dump);

}  // namespace culprit::report
