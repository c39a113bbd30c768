// Built twice, as two libraries with the same layout: LEAK is the name of the function that leaks, with BYTES.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION static void LEAK(cudaError_t (*allocate)(void**, size_t)) {
  void* pointer = nullptr;
  CHECKED(allocate(&pointer, BYTES));
}

// `allocate`: the program's cudaMalloc, because a library in another namespace would get another one.
extern "C" __attribute__((visibility("default"))) void twin_work(cudaError_t (*allocate)(void**, size_t)) {
  LEAK(allocate);
}
