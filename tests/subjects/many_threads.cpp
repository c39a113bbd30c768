// 16 threads allocate; each hands its allocations to the next thread, which frees them all but one. So every free
// happens on another thread than its allocation, and exactly 16 allocations of 11001 bytes are left.
#include <cuda_runtime_api.h>

#include <thread>
#include <vector>

#include "tests/subjects/check.h"

constexpr int kThreads = 16;
static std::vector<void*> allocated[kThreads];

SUBJECT_FUNCTION void allocate_many(int thread, int count) {
  for (int i = 0; i < count; ++i) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 11001));
    allocated[thread].push_back(pointer);
  }
}

SUBJECT_FUNCTION void free_of_neighbour(int thread) {
  std::vector<void*>& pointers = allocated[(thread + 1) % kThreads];
  for (std::size_t i = 1; i < pointers.size(); ++i) CHECKED(cudaFree(pointers[i]));
}

int main(int, char** argv) {
  const int count = atoi(argv[1]);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(allocate_many, i, count);
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(free_of_neighbour, i);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
