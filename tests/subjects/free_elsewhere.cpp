// Frees on another thread (thread) or with another device current (device) than it allocated on.
#include <cuda_runtime_api.h>

#include <cstring>
#include <thread>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void* allocate_here(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

SUBJECT_FUNCTION void free_there(void* pointer) { CHECKED(cudaFree(pointer)); }

int main(int, char** argv) {
  void* pointer = allocate_here(11001);
  if (std::strcmp(argv[1], "thread") == 0) {
    std::thread(free_there, pointer).join();
  } else {
    CHECKED(cudaSetDevice(1));
    free_there(pointer);
  }
  return 0;
}
