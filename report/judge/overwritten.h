// Variables that were assigned anew without a free: judged from allocations that are lost, and one that is held.
#pragma once

#include <vector>

#include "report/dump/tables.h"
#include "report/model/overwritten.h"

namespace culprit::report {

class Dump;
class StackResolver;

// Of the allocations of one line (the same stack, for a reader) the last one is held by a place that has one pointer
// at a time, and all others that live are lost, made before it, by the same thread. Nothing is said of a line with two
// holders, of elements of a container, and where another reason for a loss is known (an exception, an error return, a
// refused free). Lost memory is known only where the search for it was complete.
//
// Likewise where the search found the last allocation in a variable of a function that runs, which made the calls that
// allocated, and nowhere else: see interpose/causes/last_holders.h.
std::vector<Overwritten> find_overwritten(const Tables& tables, const Dump& dump, const StackResolver& stacks);

}  // namespace culprit::report
