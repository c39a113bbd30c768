// Threads that allocate and free one size as fast as they can, so that the driver hands an address that one thread just
// freed to another at once. Each thread leaves exactly one allocation behind.
#include <cuda_runtime_api.h>

#include <thread>
#include <vector>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void* allocate_shared_size() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 4096));
  return pointer;
}

SUBJECT_FUNCTION void churn(int rounds) {
  for (int i = 0; i < rounds; ++i) CHECKED(cudaFree(allocate_shared_size()));
  allocate_shared_size();
}

int main(int, char** argv) {
  const int thread_count = atoi(argv[1]);
  const int rounds = atoi(argv[2]);
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) threads.emplace_back(churn, rounds);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
