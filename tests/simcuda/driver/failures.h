// SIMCUDA_FAIL=function:n:code[,...]: the n-th call of an exported function fails with the given code and does nothing.
// cuMemAlloc counts all its versions and twins, cuMemAlloc_v2 itself only. The code is a number or a name like
// CUDA_ERROR_OUT_OF_MEMORY.
#pragma once

#include <cuda.h>

extern "C" {
// Not zero when SIMCUDA_FAIL is set to anything: the thunks then ask simcuda_injected_failure.
extern unsigned char simcuda_failures_armed;
// Counts a call of the exported function `name` and returns the code that it must fail with, or 0. Thread-safe.
CUresult simcuda_injected_failure(const char* name);
}
