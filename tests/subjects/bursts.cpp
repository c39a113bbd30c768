// Keeps 100 allocations of 11001 bytes. Then, as often as argument 2 says, allocates as many pieces of 257 bytes as
// argument 1 says and frees all of them, in a round with an odd number by another thread and in another order. Prints
// "ready" after the first round, where argument 2 is 0 (no end), or after the last one, and waits for the end of stdin.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

std::vector<void*> burst;

SUBJECT_FUNCTION void leak_here() {
  void* kept = nullptr;
  CHECKED(cudaMalloc(&kept, 11001));
}

SUBJECT_FUNCTION void allocate_piece() {
  void* piece = nullptr;
  CHECKED(cudaMalloc(&piece, 257));
  burst.push_back(piece);
}

void free_all() {
  for (void* piece : burst) CHECKED(cudaFree(piece));
  burst.clear();
}

void say_ready() {
  puts("ready");
  fflush(stdout);
}

}  // namespace

int main(int, char** argv) {
  const unsigned long count = strtoul(argv[1], nullptr, 10);
  const unsigned long rounds = strtoul(argv[2], nullptr, 10);
  for (int i = 0; i < 100; ++i) leak_here();
  std::mt19937 random(1);
  for (unsigned long round = 0; rounds == 0 || round < rounds; ++round) {
    for (unsigned long i = 0; i < count; ++i) allocate_piece();
    if (round % 2 == 0) {
      free_all();
    } else {
      std::shuffle(burst.begin(), burst.end(), random);
      std::thread(free_all).join();
    }
    if (rounds == 0 && round == 0) say_ready();
  }
  say_ready();
  while (getchar() != EOF) {
  }
  return 0;
}
