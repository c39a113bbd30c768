// Turns the records of a dump into leak groups, each with one cause and all its evidence. No I/O: the same tables give
// the same verdict.
#pragma once

#include <cstdint>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/dump/tables.h"
#include "report/judge/load_options.h"
#include "report/model/causes.h"
#include "report/model/failed_allocation.h"
#include "report/model/group.h"

namespace culprit::report {

class StackOwners;
class StackResolver;

// The first cause, in the order of the enumeration, that any evidence points to; kNeverFreed without evidence.
Cause decide_cause(const std::vector<Evidence>& evidence);

// The groups of a report, sorted as it lists them. They point into the stacks.
struct Verdicts {
  std::vector<Group> leaks;
  std::vector<Group> library;
  std::vector<Group> resources;
  std::vector<ErrorGroup> errors;
  std::vector<FailedAllocation> failed_allocations;
};

// The fourth step of a report. The stacks of the tables must have been resolved.
Verdicts judge(const Tables& tables, const Dump& dump, const StackResolver& stacks, const JudgeOptions& options,
               StackOwners* owners);

}  // namespace culprit::report
