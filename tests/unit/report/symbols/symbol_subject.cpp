// The lines of the calls are what the test asks about.
// clang-format off
// Prints places in its own code: "name offset line", where offset is the return address inside the file and line the one of
// the call. The symbolizer's test asks for these and compares.
#include <link.h>

#include <cstdint>
#include <cstdio>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone, noipa))
#endif

namespace {

int find_bias(dl_phdr_info* info, std::size_t, void* bias) {
  *static_cast<std::uint64_t*>(bias) = info->dlpi_addr;
  return 1;  // the first object is the program
}

}  // namespace

extern "C" NOINLINE void note(const char* name, int line) {
  std::uint64_t bias = 0;
  dl_iterate_phdr(find_bias, &bias);
  const auto address = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
  std::printf("%s %llx %d\n", name, static_cast<unsigned long long>(address - bias), line);
}

// An empty statement after each call keeps it from becoming a jump.
#define NOTE(name)         \
  note(name, __LINE__);    \
  asm volatile("" ::: "memory")

namespace shapes {

struct Solver {
  __attribute__((always_inline)) inline void inlined_step() {
    NOTE("inlined");
  }
  NOINLINE void step() {
    inlined_step();
    asm volatile("" ::: "memory");
  }
};

template <typename Number>
NOINLINE Number templated(Number number) {
  NOTE("templated");
  return number;
}

}  // namespace shapes

extern "C" NOINLINE void plain_c() {
  NOTE("plain");
}

namespace {

NOINLINE void hidden() {
  NOTE("hidden");
}

}  // namespace

int main() {
  shapes::Solver().step();
  shapes::templated(1.5);
  plain_c();
  hidden();
  const auto lambda = [](int) NOINLINE {
    NOTE("lambda");
  };
  lambda(1);
  return 0;
}
