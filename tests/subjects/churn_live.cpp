// Leaks 3 allocations, then has 4 threads allocate and free until standard input is closed; prints "ready" once they
// run.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_steadily(int index) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  asm volatile("" : : "r"(index));
}

SUBJECT_FUNCTION void churn(const std::atomic<bool>& stop) {
  while (!stop.load()) {
    void* pointers[8] = {};
    for (void*& pointer : pointers) CHECKED(cudaMalloc(&pointer, 20001));
    for (void* pointer : pointers) CHECKED(cudaFree(pointer));
  }
}

int main() {
  for (int i = 0; i < 3; ++i) leak_steadily(i);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { churn(stop); });
  puts("ready");
  fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return 0;
}
