// The driver refuses the free (SIMCUDA_FAIL=cuMemFree_v2:1:700); the program then forgets the pointer.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void free_in_vain(void* pointer) { EXPECTED(cudaErrorIllegalAddress, cudaFree(pointer)); }

int main() {
  free_in_vain(allocate_here());
  return 0;
}
