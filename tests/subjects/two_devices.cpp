// Allocates on both devices, where the addresses may be the same, and frees only on device 0.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void* allocate_on_first() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void* allocate_on_second() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 20001));
  return pointer;
}

int main() {
  CHECKED(cudaSetDevice(0));
  void* first = allocate_on_first();
  CHECKED(cudaSetDevice(1));
  void* second = allocate_on_second();
  CHECKED(cudaSetDevice(0));
  CHECKED(cudaFree(first));
  printf("same address: %d\n", first == second);
  return 0;
}
