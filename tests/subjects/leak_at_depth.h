// Shared by subjects that allocate from several stacks.
#pragma once

#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

// Leaks `count` allocations and frees as many, from a stack with `depth` more frames of this function.
SUBJECT_FUNCTION static void leak(int count, int depth) {
  if (depth > 0) {
    leak(count, depth - 1);
    asm volatile("");
    return;
  }
  for (int i = 0; i < count; ++i) {
    void* kept = nullptr;
    void* freed = nullptr;
    CHECKED(cudaMalloc(&kept, 11001));
    CHECKED(cudaMalloc(&freed, 11001));
    CHECKED(cudaFree(freed));
  }
}
