// The third step of a report: groups the allocations by the variables that hold them, as far as these are known.
#pragma once

#include <deque>
#include <memory>

#include "report/dump/dump_reader.h"
#include "report/dump/tables.h"
#include "report/load/dump_contents.h"
#include "report/model/frames.h"

namespace culprit::report {

class StackOwners;
class StackResolver;

struct HolderGroups {
  Tables tables;                                               // its groups and `held` point to variables
  std::shared_ptr<const std::deque<Variable>> python_holders;  // the holders on the Python side; `stacks` owns the rest
};

// Takes the tables out of the contents. `stacks` must have resolved the contents, and outlives the result.
HolderGroups group_by_holder(DumpContents* contents, const Dump& dump, const StackResolver& stacks,
                             StackOwners* owners);

}  // namespace culprit::report
