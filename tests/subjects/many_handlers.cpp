// Loads and unloads a library with static objects for ever, after its first call of CUDA: each registers exit handlers.
// Writes by how many bytes the heap has grown. Argument: the library.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <malloc.h>

#include <cstdio>

#include "tests/subjects/check.h"

int main(int, char** arguments) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  std::size_t before = 0;
  constexpr int kTimes = 2000;
  for (int i = 0; i < kTimes; ++i) {
    if (i == kTimes / 2) before = mallinfo2().uordblks;
    void* library = dlopen(arguments[1], RTLD_NOW);
    if (library == nullptr || dlclose(library) != 0) return 1;
  }
  std::printf("grown by %ld\n", static_cast<long>(mallinfo2().uordblks - before));
  return 0;
}
