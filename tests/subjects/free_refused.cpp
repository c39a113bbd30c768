// The driver refuses the first free (SIMCUDA_FAIL=cuMemFree_v2:1:700); the program then forgets that pointer. With the
// argument "retry" it tries again, with success.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void free_in_vain(void* pointer) { EXPECTED(cudaErrorIllegalAddress, cudaFree(pointer)); }

int main(int count, char**) {
  void* pointer = allocate_here();
  free_in_vain(pointer);
  if (count > 1) CHECKED(cudaFree(pointer));
  return 0;
}
