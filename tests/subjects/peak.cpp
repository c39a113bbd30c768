// Holds 192 MiB for a while, in three places, and leaks 1 MiB. With an argument it then asks for more than there is,
// twice, while it holds 64 MiB again. With "moment" or "threads" it only has a peak that lasts for a moment.
#include <cuda_runtime_api.h>
#include <pthread.h>

#include <cstring>

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

// Three allocations of 64 MiB, and a hundred small ones, which live together for a moment. Readings of free memory are
// rarer than that.
void live_for_a_moment() {
  void* large[3] = {};
  void* small[100] = {};
  for (int turn = 0; turn < 2; ++turn) {
    for (void*& pointer : large) CHECKED(cudaMalloc(&pointer, 64 * kMiB));
    for (void*& pointer : small) CHECKED(cudaMalloc(&pointer, 1000));
    for (void* pointer : small) CHECKED(cudaFree(pointer));
    for (void* pointer : large) CHECKED(cudaFree(pointer));
  }
}

// Each of four threads has 3 MiB when all of them do.
void live_in_threads() {
  pthread_barrier_t barrier;
  CHECKED(pthread_barrier_init(&barrier, nullptr, 4));
  pthread_t threads[4];
  for (pthread_t& thread : threads) {
    const auto run = [](void* all) -> void* {
      void* pointers[3] = {};
      for (void*& pointer : pointers) CHECKED(cudaMalloc(&pointer, kMiB));
      pthread_barrier_wait(static_cast<pthread_barrier_t*>(all));
      for (void* pointer : pointers) CHECKED(cudaFree(pointer));
      return nullptr;
    };
    CHECKED(pthread_create(&thread, nullptr, run, &barrier));
  }
  for (const pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "moment") == 0) {
    live_for_a_moment();
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "threads") == 0) {
    live_in_threads();
    return 0;
  }
  void* weights = hold_weights();
  void* activations[2] = {hold_activations(), hold_activations()};
  CHECKED(cudaFree(weights));
  leak_here();
  if (argc > 1) ask_too_much();
  for (void* pointer : activations) CHECKED(cudaFree(pointer));
  return 0;
}
