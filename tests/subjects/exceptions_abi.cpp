// Exceptions of another C++ runtime: linked with libc++abi and no libstdc++. No standard library, so its own types.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

struct Base {
  virtual ~Base() {}
};
struct Failure : Base {};

SUBJECT_FUNCTION void step(bool fail) {
  void* buffer = nullptr;
  CHECKED(cudaMalloc(&buffer, 4001));
  if (fail) throw Failure();
  CHECKED(cudaFree(buffer));
}

SUBJECT_FUNCTION void rethrow(bool fail) {
  void* buffer = nullptr;
  CHECKED(cudaMalloc(&buffer, 4002));
  try {
    step(fail);
  } catch (...) {
    throw;
  }
  CHECKED(cudaFree(buffer));
}

int main(int argc, char**) {
  void* before = nullptr;
  CHECKED(cudaMalloc(&before, 4003));
  for (int i = 0; i < 4; ++i) {
    try {
      rethrow(argc > 0 && i == 2);
    } catch (const Base&) {
      puts("caught");
    }
  }
  return 0;
}
