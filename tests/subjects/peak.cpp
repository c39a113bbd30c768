// Holds 192 MiB for a while, in three places, and leaks 1 MiB. With an argument it then asks for more than there is,
// twice, while it holds 64 MiB again.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

constexpr size_t kMiB = 1 << 20;

SUBJECT_FUNCTION void* hold_weights() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 128 * kMiB));
  return pointer;
}

SUBJECT_FUNCTION void* hold_activations() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 32 * kMiB));
  return pointer;
}

SUBJECT_FUNCTION void leak_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, kMiB));
}

SUBJECT_FUNCTION void ask_too_much() {
  void* pointer = nullptr;
  // One call for both times, also where the compiler would unroll the loop.
  for (volatile int i = 0; i < 2; i = i + 1) EXPECTED(cudaErrorMemoryAllocation, cudaMalloc(&pointer, size_t{1} << 46));
}

int main(int argc, char**) {
  void* weights = hold_weights();
  void* activations[2] = {hold_activations(), hold_activations()};
  CHECKED(cudaFree(weights));
  leak_here();
  if (argc > 1) ask_too_much();
  for (void* pointer : activations) CHECKED(cudaFree(pointer));
  return 0;
}
