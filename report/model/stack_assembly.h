// Which frames of a stack are shown, and which CUDA call the user made.
#pragma once

#include <vector>

#include "report/model/frames.h"

namespace culprit::report {

// The stack of these frames, innermost first, without those that tell the reader nothing: this tool's, the CUDA
// runtime's, start-up code. `full_stacks` keeps them.
ResolvedStack assemble_stack(std::vector<const Frame*> all, bool full_stacks);

}  // namespace culprit::report
