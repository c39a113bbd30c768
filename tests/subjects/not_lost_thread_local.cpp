// Keeps a pointer to 11001 bytes in a thread-local container, which exit() destroys before any exit handler runs;
// "cleared" as the argument: overwrites it.
#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "tests/subjects/check.h"

thread_local std::vector<void*> t_vector;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

int main(int, char** arguments) {
  t_vector.push_back(allocate_here());
  if (arguments[1] == std::string("cleared")) t_vector[0] = nullptr;
  return 0;
}
