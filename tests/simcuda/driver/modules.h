// Modules, libraries and kernels. Any image is accepted, and every name is found in it: nothing is ever run.
#pragma once

#include <string>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

// Whether an image can be loaded from this path; false for nullptr.
bool file_exists(const char* path);

bool is_launchable(const DriverState& state, const void* function_or_kernel);

class Call;
const std::string& kernel_name(DriverState& state, const void* function_or_kernel);
// Takes the memory that this kernel's first launch takes (own_memory.h).
CUresult load_for_launch(Call& call, const void* function_or_kernel);

}  // namespace simcuda
