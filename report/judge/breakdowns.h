// The holders of memory at the peak and at failures with out of memory, as stored in the dump.
#pragma once

#include <vector>

#include "report/dump/dump_reader.h"
#include "report/load/gpu_answers.h"
#include "report/model/breakdown.h"

namespace culprit::report {

class StackOwners;
class StackResolver;

// The breakdowns of these records, in the order of Report::breakdowns. They point into `stacks`, which has resolved
// them.
std::vector<Breakdown> read_breakdowns(const std::vector<format::BreakdownRecord>& records, const Dump& dump,
                                       const StackResolver& stacks, StackOwners* owners);

// Report::freed_at_end of these records. Memory of caching allocators, and that libraries hold for themselves, is left
// out: it is theirs to free at the end.
std::vector<Breakdown> read_freed_at_end(const std::vector<format::BreakdownRecord>& records, const Dump& dump,
                                         const StackResolver& stacks, StackOwners* owners);

// Gives each failure the first answer of NVML after it.
void add_charges(const std::vector<GpuAnswer>& answers, std::vector<Breakdown>* breakdowns);

}  // namespace culprit::report
