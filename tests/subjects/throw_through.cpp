// Throws C++ exceptions past frames that made CUDA calls, also from a callback of cudart or the driver, and across
// threads. Prints what was caught. Built once with the shared libstdc++ and once with a static one.
#include <cuda_runtime_api.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/subjects/check.h"

struct Guard {
  void* pointer = nullptr;
  ~Guard() { cudaFree(pointer); }
};

SUBJECT_FUNCTION void allocate_and_throw(int depth) {
  Guard guard;
  CHECKED(cudaMalloc(&guard.pointer, 11001));
  if (depth == 0) throw std::runtime_error("bottom");
  allocate_and_throw(depth - 1);
}

int main() {
  std::string caught;
  for (int i = 0; i < 3; ++i) {
    try {
      allocate_and_throw(i);
    } catch (const std::runtime_error& error) {
      caught += error.what() + std::to_string(i) + " ";
    }
  }
  std::exception_ptr moved;
  std::thread([&] {
    try {
      allocate_and_throw(5);
    } catch (...) {
      moved = std::current_exception();
    }
  }).join();
  try {
    std::rethrow_exception(moved);
  } catch (const std::exception& error) {
    caught += error.what();
  }
  puts(caught.c_str());
  return 0;
}
