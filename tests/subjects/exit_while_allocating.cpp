// main returns while detached threads are still allocating and freeing: all exit handlers run concurrently with them.
#include <cuda_runtime_api.h>

#include <atomic>
#include <thread>

#include "tests/subjects/check.h"

static std::atomic<int> running{0};

SUBJECT_FUNCTION void churn_forever() {
  bool counted = false;
  for (;;) {
    void* pointer = nullptr;
    // Errors are expected once the driver shuts down.
    if (cudaMalloc(&pointer, 11001) == cudaSuccess) cudaFree(pointer);
    if (!counted) ++running;
    counted = true;
  }
}

int main() {
  for (int i = 0; i < 4; ++i) std::thread(churn_forever).detach();
  while (running.load() < 4) std::this_thread::yield();
  return 5;
}
