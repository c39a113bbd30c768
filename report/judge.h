// Turns what a dump recorded into leak groups, each with one cause and all its evidence. No I/O: the same tables give
// the same verdict.
#pragma once

#include <cstdint>
#include <vector>

#include "report/allocation_groups.h"
#include "report/dump_reader.h"
#include "report/report_model.h"

namespace culprit {

struct JudgeOptions {
  bool default_suppressions = true;  // put what libraries hold for themselves into its own section
  bool strict = false;               // count that section and cached memory as leaks
};

// The tables that are judged, all of one dump.
struct Tables {
  std::vector<AllocationGroup> allocations;
  std::vector<format::ReleaseRecord> releases;
  std::vector<format::ErrorRecord> errors;
  std::vector<format::ContextRecord> contexts;
  CallCounts calls;
};

Tables read_tables(const Dump& dump);

// Every stack that a report of these tables shows, to be resolved before judging.
std::vector<format::Ref> stacks_of(const Tables& tables, const Dump& dump);

// The first cause of the enumeration's order that any evidence points to; kNeverFreed without evidence.
Cause decide_cause(const std::vector<Evidence>& evidence);

// Fills leaks, library, resources, errors and the summary of `report`. The stacks must have been resolved; the report
// keeps pointers into `stacks`.
void judge(const Tables& tables, const Dump& dump, const StackResolver& stacks, const JudgeOptions& options,
           Report* report);

}  // namespace culprit
