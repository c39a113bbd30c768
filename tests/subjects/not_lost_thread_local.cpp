// Keeps pointers to 11001 bytes in a thread-local container, which exit() destroys before any exit handler runs.
#include <cuda_runtime_api.h>

#include <vector>

#include "tests/subjects/check.h"

thread_local std::vector<void*> t_vector;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

int main() {
  t_vector.push_back(allocate_here());
  return 0;
}
