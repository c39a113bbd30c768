// A library that the program loads and closes again and again while culprit attaches: linked to the driver, with slots
// that the loader makes read-only; or (ATTACH_PLUGIN_PLAIN) without any, and with data of its own in their place.
// ATTACH_PLUGIN_SLOW: it takes 2 ms to load.
#include <cuda.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>

#ifdef ATTACH_PLUGIN_SLOW
// The loader's lock is held meanwhile.
__attribute__((constructor)) static void construct() { usleep(2000); }
#endif

#ifdef ATTACH_PLUGIN_PLAIN
static volatile long numbers[8192] = {1};
extern "C" void use_plugin() {
  for (volatile long& number : numbers) number = number + 1;
}
#else
// Constants with the addresses of functions: read-only once they are relocated.
using Allocate = CUresult (*)(CUdeviceptr*, size_t);
constexpr int kSlots = 768;
extern const Allocate allocators[2048];
#define FOUR(x) x, x, x, x
#define MANY(x) FOUR(FOUR(FOUR(FOUR(x))))
const Allocate allocators[2048] = {MANY(cuMemAlloc_v2), MANY(cuMemAlloc_v2), MANY(cuMemAlloc_v2)};
extern "C" void use_plugin() {
  CUdeviceptr pointer = 0;
  if (allocators[7](&pointer, 7001) != CUDA_SUCCESS || cuMemFree(pointer) != CUDA_SUCCESS) abort();
}

// Of attach_many.
extern "C" void leak_plugin() {
  CUdeviceptr pointer = 0;
  if (allocators[700](&pointer, 7001) != CUDA_SUCCESS) abort();
}
extern "C" int slots_other_than(std::uintptr_t masked, std::uintptr_t mask) {
  int others = 0;
  for (int i = 0; i < kSlots; ++i) others += (reinterpret_cast<std::uintptr_t>(allocators[i]) ^ mask) != masked ? 1 : 0;
  return others;
}
#endif
