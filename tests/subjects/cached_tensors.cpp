// cached_tensors LIBRARY WHAT MILLISECONDS: one segment of a cache like PyTorch's, in which tensors live. WHAT: "leak"
// keeps 64 KiB of each round, "teeth" gives back all that it keeps again and again. "ready" comes after the first
// round.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

int main(int, char** argv) {
  void* const library = dlopen(argv[1], RTLD_NOW);
  const auto take = reinterpret_cast<void* (*)(std::size_t)>(dlsym(library, "take_segment"));
  const auto count = reinterpret_cast<void (*)(std::int64_t, std::int64_t)>(dlsym(library, "count_bytes"));
  constexpr std::int64_t kSegment = 1 << 30, kTensor = 64 << 10, kBatch = 4 << 20;
  constexpr int kTooth = 30;
  if (take(kSegment) == nullptr) return 1;
  count(kSegment, 0);
  const std::string what = argv[2];
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(atoi(argv[3]));
  int kept = 0;
  for (bool first = true; std::chrono::steady_clock::now() < end; first = false) {
    count(0, kBatch);
    count(0, kTensor);
    ++kept;
    if (what == "teeth" && kept == kTooth) {
      for (; kept != 0; --kept) count(0, -kTensor);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    count(0, -kBatch);
    if (first) {
      puts("ready");
      fflush(stdout);
    }
  }
  return 0;
}
