// A program whose stacks never repeat, like those of an interpreter or a compiler: each pair of calls comes through
// another path of two small functions that call each other; the bits of a number choose between them.
//
//   endless_stacks STACKS THREADS LEAKS [SECONDS]
//
// Each thread makes STACKS pairs, and leaves LEAKS of their allocations, spread evenly: of 1 MiB + 256 times the number
// of the path. With SECONDS it runs that long. Prints, now and then and at the end, the number of stacks, and the sizes
// of this process's dump and of its private memory:
//
//   stacks 100000 dump 4194304 private 20480000
#include <cuda.h>
#include <sys/stat.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

#define KEEP_FRAME() asm volatile("" ::: "memory")

constexpr int kBits = 24;
std::atomic<std::uint64_t> made;

struct Path {
  std::uint64_t bits;
  int left;
  bool leaks;
  std::uint64_t bytes;
};

SUBJECT_FUNCTION void step_one(const Path& path);
SUBJECT_FUNCTION void step_zero(const Path& path);

SUBJECT_FUNCTION void pair(const Path& path) {
  CUdeviceptr memory = 0;
  CHECKED(cuMemAllocAsync(&memory, path.bytes, nullptr));
  if (!path.leaks) CHECKED(cuMemFreeAsync(memory, nullptr));
  KEEP_FRAME();
}

void next(const Path& path) {
  if (path.left == 0) {
    pair(path);
    return;
  }
  const Path rest = {path.bits >> 1, path.left - 1, path.leaks, path.bytes};
  if ((path.bits & 1) != 0) {
    step_one(rest);
  } else {
    step_zero(rest);
  }
  KEEP_FRAME();
}

void step_one(const Path& path) {
  next(path);
  KEEP_FRAME();
}

void step_zero(const Path& path) {
  next(path);
  KEEP_FRAME();
}

// The dump's size: the mapped file that is named *.dump. The private memory: of all mappings, as the kernel counts it.
void report_sizes() {
  std::uint64_t dump = 0;
  std::uint64_t dirty = 0;
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[4500];
  while (maps != nullptr && std::fgets(line, sizeof(line), maps) != nullptr) {
    char* name = std::strchr(line, '/');
    if (name == nullptr || dump != 0) continue;
    name[std::strcspn(name, "\n")] = '\0';
    const std::size_t length = std::strlen(name);
    struct stat info;
    if (length > 5 && std::strcmp(name + length - 5, ".dump") == 0 && stat(name, &info) == 0)
      dump = static_cast<std::uint64_t>(info.st_size);
  }
  if (maps != nullptr) std::fclose(maps);
  std::FILE* rollup = std::fopen("/proc/self/smaps_rollup", "r");
  while (rollup != nullptr && std::fgets(line, sizeof(line), rollup) != nullptr) {
    unsigned long kilobytes = 0;
    if (std::sscanf(line, "Private_Dirty: %lu kB", &kilobytes) == 1 ||
        std::sscanf(line, "Anonymous: %lu kB", &kilobytes) == 1)
      dirty = std::uint64_t{kilobytes} * 1024;
  }
  if (rollup != nullptr) std::fclose(rollup);
  std::printf("stacks %llu dump %llu private %llu\n", static_cast<unsigned long long>(made.load()),
              static_cast<unsigned long long>(dump), static_cast<unsigned long long>(dirty));
  std::fflush(stdout);
}

std::uint64_t seconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec);
}

void run(std::uint64_t first, std::uint64_t stacks, std::uint64_t leaks, std::uint64_t until) {
  const std::uint64_t every = leaks == 0 ? stacks + 1 : stacks / leaks;
  for (std::uint64_t i = 1; i <= stacks || seconds() < until; ++i) {
    const bool leaking = i <= stacks && i % every == 0;
    const std::uint64_t number = first + i;
    next({number, until == 0 ? kBits : 40, leaking, leaking ? (1U << 20) + 256 * number : 256});
    if (i % 1024 == 0) made.fetch_add(1024);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::uint64_t stacks = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t threads = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t leaks = std::strtoull(argv[3], nullptr, 10);
  const std::uint64_t duration = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0;
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  const std::uint64_t until = duration == 0 ? 0 : seconds() + duration;
  std::atomic<std::uint64_t> running{threads};
  std::vector<std::thread> others;
  for (std::uint64_t i = 0; i < threads; ++i) {
    others.emplace_back([&, i] {
      CHECKED(cuCtxSetCurrent(context));
      run(i * (until == 0 ? stacks : 1ULL << 36), stacks, leaks, until);
      running.fetch_sub(1);
    });
  }
  std::uint64_t next_report = until == 0 ? 20000 : seconds() + 10;
  while (running.load() != 0) {
    struct timespec pause = {0, 10000000};
    nanosleep(&pause, nullptr);
    if ((until == 0 ? made.load() : seconds()) < next_report) continue;
    report_sizes();
    next_report = until == 0 ? made.load() + 20000 : seconds() + 10;
  }
  for (std::thread& thread : others) thread.join();
  report_sizes();
  return 0;
}
