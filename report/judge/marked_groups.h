// Groups of the memory that was live at marks, and of what is live in the end.
#pragma once

#include "report/dump/mark_sums.h"
#include "report/dump/tables.h"

namespace culprit::report {

class StackOwners;
class StackResolver;
struct Report;

// Fills the groups of Report::marked, which was made from `kept`, and Report::live_now. Both have the memory of caches
// and of libraries, too. Memory at a mark has no evidence, which belongs to allocations: its cause is kCached or
// kNeverFreed. The stacks of `kept` and of the tables must have been resolved.
void add_marked_groups(const KeptMarkSums& kept, const Tables& tables, const Dump& dump, const StackResolver& stacks,
                       StackOwners* owners, Report* report);

}  // namespace culprit::report
