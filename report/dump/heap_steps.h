// The chunks of the heap that lead to a handle.
#pragma once

#include <vector>

#include "report/dump/dump_reader.h"

namespace culprit::report {

// The steps to the chunk of `last`, the first of which has its pointer in a module's data. Empty when one is missing.
std::vector<format::HeapStepRecord> steps_to(const Dump& dump, format::Ref last);

}  // namespace culprit::report
