// Shared by the tests of tests/simcuda: a context for each test, and the amount of memory in use.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "tests/catch.h"

namespace simcuda_test {

// A context for one test, destroyed with everything that the test left in it.
struct DriverContext {
  explicit DriverContext(int device = 0) {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate(&handle, nullptr, 0, device) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);  // pools release memory that an earlier test left idle
  }
  ~DriverContext() { cuCtxDestroy(handle); }
  CUcontext handle = nullptr;
};

inline std::size_t used_bytes() {
  std::size_t free_bytes = 0, total = 0;
  REQUIRE(cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
  return total - free_bytes;
}

inline CUmemAllocationProp pinned_on(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace simcuda_test
