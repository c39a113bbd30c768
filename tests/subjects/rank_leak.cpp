// Leaks 1000 bytes in every rank of an MPI job, and 50000 in rank 2.
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_here(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
}

int main() {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  leak_here(rank != nullptr && strcmp(rank, "2") == 0 ? 50000 : 1000);
  return 0;
}
