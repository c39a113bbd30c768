// Allocations that fail: nothing was made, so nothing can leak, even if the program frees the null pointer afterwards.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void allocate_too_much() {
  void* pointer = nullptr;
  EXPECTED(cudaErrorMemoryAllocation, cudaMalloc(&pointer, size_t{1} << 46));
  EXPECTED(cudaErrorMemoryAllocation, cudaMalloc(&pointer, size_t{1} << 46));
  CHECKED(cudaFree(pointer));
}

int main() {
  allocate_too_much();
  EXPECTED(cudaErrorInvalidValue, cudaMalloc(nullptr, 11001));
  return 0;
}
