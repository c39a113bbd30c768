// Frees null through every function that allows it: no event is recorded.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

int main() {
  CHECKED(cudaFree(nullptr));
  CHECKED(cudaFreeHost(nullptr));
  CHECKED(cudaFreeArray(nullptr));
  CHECKED(cudaFree(nullptr));
  return 0;
}
