#pragma once

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

// The work of cuMemcpy3D for every kind of source and destination. `device`: the device of the addresses, if several
// devices share them.
CUresult copy_3d(DriverState& state, int device, const CUDA_MEMCPY3D& copy);
// The work of the cuMemset functions: rows of `width` elements.
CUresult set_2d(DriverState& state, int device, CUdeviceptr address, std::size_t pitch, unsigned value,
                unsigned element_bytes, std::size_t width, std::size_t height);

}  // namespace simcuda
