// other_world.c in C++: exceptions, also in a thread.
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION static void throw_here(int number) { throw std::runtime_error("thrown " + std::to_string(number)); }

static void work(bool with_cuda) {
  for (int i = 0; i < 3; ++i) {
    void* pointer = nullptr;
    if (with_cuda) CHECKED(cudaMalloc(&pointer, 4096));
    try {
      throw_here(i);
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
    }
    if (with_cuda) CHECKED(cudaFree(pointer));
  }
}

int main(int argc, char**) {
  std::thread(work, argc > 1).join();
  work(argc > 1);
  void* pointer = nullptr;
  if (argc > 1) CHECKED(cudaMalloc(&pointer, 11001));
  return 5;
}
