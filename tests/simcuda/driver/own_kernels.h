// Kernels that the simulated driver runs: the tracker's own one. Of a program's kernels nothing is ever run.
#pragma once

#include <string>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

// Runs the kernel of this name with these parameters if it is one of them.
void run_own_kernel(DriverState& state, int device, const std::string& name, void** parameters);

}  // namespace simcuda
