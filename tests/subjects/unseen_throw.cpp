// Leaks 11001 bytes through an exception that no preloaded library can see: built with -static-libstdc++ and
// -static-libgcc, once with symbols and once stripped.
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_and_throw() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  throw std::runtime_error("unseen");
}

int main() {
  try {
    leak_and_throw();
  } catch (const std::runtime_error&) {
    return 0;
  }
  return 1;
}
