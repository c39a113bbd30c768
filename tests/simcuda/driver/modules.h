// Modules, libraries and kernels. Any image is accepted, and every name is found in it: nothing is ever run.
#pragma once

#include <string>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

bool is_launchable(const DriverState& state, const void* function_or_kernel);

}  // namespace simcuda
