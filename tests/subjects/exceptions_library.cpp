// A library that catches what its callbacks throw, and throws itself: loaded, and unloaded, by exceptions.cpp.
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "tests/subjects/check.h"

extern "C" __attribute__((visibility("default"))) int guarded_call(void (*function)()) {
  try {
    function();
  } catch (...) {
    return -1;
  }
  return 0;
}

extern "C" __attribute__((visibility("default"))) void throw_and_keep() {
  void* buffer = nullptr;
  CHECKED(cudaMalloc(&buffer, 3151));
  throw std::runtime_error("thrown by the library");
}
