// Leaks one allocation and frees another one.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

SUBJECT_FUNCTION void allocate_and_free() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 20001));
  CHECKED(cudaFree(pointer));
}

int main() {
  leak_here();
  allocate_and_free();
  puts("done");
  return 7;  // so that a test sees the program's own exit code
}
