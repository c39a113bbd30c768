// The tables of a dump that the judge works on, and the stacks and places that they refer to.
#pragma once

#include <cstdint>
#include <vector>

#include "report/dump/allocation_groups.h"
#include "report/dump/dump_reader.h"
#include "report/dump/last_held.h"

namespace culprit::report {

struct Tables {
  std::vector<AllocationGroup> allocations;
  std::vector<format::ReleaseRecord> releases;
  std::vector<format::ErrorRecord> errors;
  std::vector<format::FailedCallRecord> failed_allocations;
  std::vector<format::ContextRecord> contexts;
  CallCounts calls;
  std::vector<Held> held;
  std::vector<LastHeld> last_held;
  std::vector<format::AuditRecord> audits;
  TimeRange range;    // allocations and errors outside of it are left out
  bool each = false;  // the groups have their single allocations
  OnlyLost only_lost;
};

Tables read_tables(const Dump& dump, const TimeRange& range = {}, bool each = false, const OnlyLost& only_lost = {});

// All stacks that a report of these tables shows, to be resolved before judging.
std::vector<format::Ref> stacks_of(const Tables& tables, const Dump& dump);

// All places where the search at exit found a pointer, to be resolved before judging: in the data of modules, and in
// the heap.
std::vector<std::uint64_t> places_of(const Tables& tables);
std::vector<HeapPlace> heap_places_of(const Tables& tables);
// Likewise in the frames of functions.
std::vector<LocalPlace> local_places_of(const Tables& tables);

}  // namespace culprit::report
