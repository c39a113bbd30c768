// watched WHAT MILLISECONDS [CODE]: works for so long, gives all back, and ends with CODE. WHAT: "leak" keeps 64 KiB of
// each round, "slow-end" takes 0.6 s to give that back, "teeth" empties what it keeps again and again, "streams" keeps
// streams, "steady" nothing. All have a base, and memory that lives for one round. "ready" comes after the first round.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

constexpr std::size_t kTooth = 30;

std::vector<void*> kept;
std::vector<cudaStream_t> streams;

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, bytes));
  return memory;
}

void free_kept() {
  for (void* memory : kept) CHECKED(cudaFree(memory));
  kept.clear();
}

}  // namespace

SUBJECT_FUNCTION void keep_one() { kept.push_back(allocate(64 << 10)); }

SUBJECT_FUNCTION void keep_stream() {
  cudaStream_t stream = nullptr;
  CHECKED(cudaStreamCreate(&stream));
  streams.push_back(stream);
}

SUBJECT_FUNCTION void use_and_free() {
  void* const memory = allocate(1 << 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  CHECKED(cudaFree(memory));
}

int main(int, char** argv) {
  const std::string what = argv[1];
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(atoi(argv[2]));
  void* const base = allocate(8 << 20);
  for (bool first = true; std::chrono::steady_clock::now() < end; first = false) {
    if (what == "leak" || what == "teeth" || what == "slow-end") keep_one();
    if (what == "teeth" && kept.size() == kTooth) free_kept();
    if (what == "streams") keep_stream();
    use_and_free();
    if (first) {
      puts("ready");
      fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::size_t left = what == "slow-end" ? kept.size() : 0; left != 0; --left) {
    CHECKED(cudaFree(kept[left - 1]));
    std::this_thread::sleep_for(std::chrono::microseconds(600000 / kept.size()));
  }
  if (what == "slow-end") kept.clear();
  free_kept();
  for (cudaStream_t stream : streams) CHECKED(cudaStreamDestroy(stream));
  CHECKED(cudaFree(base));
  return argv[3] != nullptr ? atoi(argv[3]) : 0;
}
