// Five threads allocate without a context, so each allocation is refused; nothing is ever allocated.
#include <cuda.h>

#include <thread>
#include <vector>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void allocate_without_context() {
  CUdeviceptr pointer = 0;
  EXPECTED(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&pointer, 11001));
}

int main() {
  CHECKED(cuInit(0));
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) threads.emplace_back(allocate_without_context);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
