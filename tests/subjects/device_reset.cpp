// cudaDeviceReset as "cleanup": earlier allocations end with the context, later ones are new leaks.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void allocate_before() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

SUBJECT_FUNCTION void reset_here() { CHECKED(cudaDeviceReset()); }

SUBJECT_FUNCTION void allocate_after() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 20001));
}

int main() {
  allocate_before();
  reset_here();
  allocate_after();
  return 0;
}
