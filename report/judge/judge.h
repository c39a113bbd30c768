// Turns the records of a dump into leak groups, each with one cause and all its evidence. No I/O: the same tables give
// the same verdict.
#pragma once

#include <cstdint>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/dump/tables.h"
#include "report/model/report_model.h"

namespace culprit::report {

struct JudgeOptions {
  bool default_suppressions = true;  // list memory that libraries hold for themselves in a section of its own
  bool strict = false;               // count that section and cached memory as leaks
  bool ids = true;  // give the groups their ids; a caller that merges groups assigns the ids afterwards
};

// The first cause, in the order of the enumeration, that any evidence points to; kNeverFreed without evidence.
Cause decide_cause(const std::vector<Evidence>& evidence);

// The groups of a report, sorted as it lists them. They point into the stacks.
struct Verdicts {
  std::vector<Group> leaks;
  std::vector<Group> library;
  std::vector<Group> resources;
  std::vector<ErrorGroup> errors;
};

// The fourth step of a report. The stacks of the tables must have been resolved.
Verdicts judge(const Tables& tables, const Dump& dump, const StackResolver& stacks, const JudgeOptions& options);

}  // namespace culprit::report
