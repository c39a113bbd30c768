// Calls every hooked function with arguments that no sane program passes: hostile_arguments accepts|refuses|runs-out
//   the driver says success, refuses everything, or has no memory; it looks at no argument, so this program alone lives
//
// The arguments come from the types of the table's parameters: 0, 1, -1, the largest and smallest numbers, null, wild
// addresses (where the driver refuses), structures and texts of one repeated byte, texts that end where memory ends.
//
// Compiled with __CUDA_API_VERSION_INTERNAL, as the table asks for: without guest.h, which uses CUDA's public names.
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <type_traits>

#include "tests/guest/driver/guest_driver.h"

namespace {

void must(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  _Exit(3);
}

constexpr size_t kArea = 1 << 16;
constexpr int kVariants = 48;

bool wild;            // the driver refuses, so no pointer needs to be valid
unsigned char* area;  // what structures and out-pointers are; memory ends behind it
uint64_t random_seed;

uint64_t number() {
  random_seed ^= random_seed << 13;
  random_seed ^= random_seed >> 7;
  random_seed ^= random_seed << 17;
  return random_seed;
}

template <typename T, typename = void>
struct IsComplete : std::false_type {};
template <typename T>
struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

template <typename T>
T pointer() {
  using Target = std::remove_cv_t<std::remove_pointer_t<T>>;
  constexpr bool kIsHandle = !IsComplete<Target>::value && !std::is_void_v<Target>;
  const uint64_t choice = number();
  if (wild || kIsHandle) {
    constexpr uint64_t kWild[] = {1, 8, ~uint64_t{0}, uint64_t{1} << 63, 0x7fffffffffff, 0xdeadbeef000};
    if (choice % 2 == 0) return reinterpret_cast<T>(kWild[choice / 2 % 6]);
  }
  if (choice % 5 == 0) return nullptr;
  if (kIsHandle) return reinterpret_cast<T>(choice);
  // A text without an end, as far as memory goes.
  if (std::is_same_v<Target, char>) return reinterpret_cast<T>(area + kArea - choice % 100);
  return reinterpret_cast<T>(area + choice % 64 * 64);
}

template <typename T>
T value() {
  if constexpr (std::is_pointer_v<T>) {
    return pointer<T>();
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    constexpr uint64_t kExtremes[] = {0,          1,          ~uint64_t{0},          0x7fffffff,
                                      0x80000000, 0xffffffff, 0x7fffffffffffffffULL, uint64_t{1} << 63,
                                      64,         255,        0xffffffff00000000ULL, 3};
    return static_cast<T>(kExtremes[number() % (sizeof kExtremes / sizeof *kExtremes)]);
  } else {
    T structure;
    memset(static_cast<void*>(&structure), static_cast<int>(number()), sizeof structure);
    return structure;
  }
}

template <typename... Parameters>
__attribute__((noinline)) int call(CUresult (*function)(Parameters...)) {
  const CUresult answer = function(value<Parameters>()...);
  return static_cast<int>(answer);
}

struct Row {
  const char* name;
  int (*call)();
};
const Row kRows[] = {
#define HOOK_ANY(symbol, ...) {#symbol, [] { return call(&symbol); }},
#include "interpose/driver/hooks.def"
};

void fill_area() {
  constexpr int kBytes[] = {0xff, 0x00, 0x01, 0x7f, 0x80, 0x03};
  const uint64_t choice = number();
  memset(area, kBytes[choice % 6], kArea);
  // Numbers of 4 and 8 bytes next to each other.
  if (choice % 4 == 0) {
    for (size_t at = 0; at < kArea; at += 4) {
      const uint32_t word = static_cast<uint32_t>(number());
      memcpy(area + at, &word, 4);
    }
  }
}

}  // namespace

int main(int, char** argv) {
  void* memory = mmap(nullptr, kArea + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(memory != MAP_FAILED && munmap(static_cast<char*>(memory) + kArea, 4096) == 0, "no memory");
  area = static_cast<unsigned char*>(memory);
  CUcontext context = nullptr;
  must(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0, "no context");
  const char how = argv[1][0] == 'r' ? argv[1][1] : argv[1][0];
  const int answer = how == 'a' ? -1 : how == 'u' ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  wild = how == 'e';
  guestDriverAnswer(answer);
  for (int variant = 0; variant < kVariants; ++variant) {
    random_seed = 88172645463325252ULL + static_cast<uint64_t>(variant) * 7919;
    fill_area();
    for (const Row& row : kRows) {
      const int got = row.call();
      must(got == (answer == -1 ? 0 : answer), row.name);
    }
  }
  guestDriverAnswer(0);
  CUdeviceptr memory_of_device = 0;
  must(cuMemAlloc_v2(&memory_of_device, 512) == 0 && cuMemFree_v2(memory_of_device) == 0, "no memory afterwards");
  printf("%zu functions, %d sets of arguments\n", sizeof kRows / sizeof *kRows, kVariants);
  return 0;
}
