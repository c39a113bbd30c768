// SIMCUDA_FREE_CALLS=1: cuMemAllocAsync and cuMemFreeAsync cost next to nothing, for measuring the cost that a tool
// adds.
//
// Each thread hands out addresses of its own, without a lock and without any bookkeeping; like a warm pool it gives the
// address that it got back last. The addresses have no memory, nothing is counted, and every stream is accepted.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace simcuda {

// Read once, when the library is loaded.
extern const bool free_calls;

// Thread-safe.
CUresult allocate_for_free(CUdeviceptr* out, std::size_t bytes);
// Any address that allocate_for_free() can have made is accepted, from any thread.
CUresult free_for_free(CUdeviceptr address);

}  // namespace simcuda
