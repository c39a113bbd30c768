// The common part of the guest programs. A guest creates one hostile situation, prints one line that is the same in
// each run, and ends with exit code 3 when a check of its own fails. No function of this file allocates or locks.
//
//   GUEST_SECONDS   duration of a storm in seconds (default 1)
//   GUEST_FIGURES   file for the values that differ between runs: lines "name value", which the test reads
#pragma once

#include <cuda.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/guest/driver/guest_driver.h"

#ifdef __clang__
#define GUEST_FUNCTION __attribute__((noinline))
#else
#define GUEST_FUNCTION __attribute__((noinline, noclone))
#endif
// After a call at a function's end: no tail call, so that the function keeps its frame.
#define KEEP_FRAME() asm volatile("" ::: "memory")

// Ends the program unless `call`, a CUresult, is 0. Async-signal-safe.
#define CHECKED(call)                                                              \
  do {                                                                             \
    const int checked_code = (int)(call);                                          \
    if (checked_code != 0) guest::broken(__FILE__, __LINE__, #call, checked_code); \
  } while (0)

// Ends the program unless `condition` holds. Async-signal-safe.
#define HOLDS(condition)                                                \
  do {                                                                  \
    if (!(condition)) guest::broken(__FILE__, __LINE__, #condition, 0); \
  } while (0)

namespace guest {

inline void write_text(int descriptor, const char* text) {
  const ssize_t written = write(descriptor, text, strlen(text));
  (void)written;
}

inline char* number_text(long long value, char* end) {
  const bool negative = value < 0;
  unsigned long long rest =
      negative ? 0ULL - static_cast<unsigned long long>(value) : static_cast<unsigned long long>(value);
  *--end = '\0';
  do {
    *--end = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (negative) *--end = '-';
  return end;
}

[[noreturn]] inline void broken(const char* file, int line, const char* what, int code) {
  char number[24];
  write_text(2, file);
  write_text(2, ":");
  write_text(2, number_text(line, number + sizeof number));
  write_text(2, ": ");
  write_text(2, what);
  write_text(2, " -> ");
  write_text(2, number_text(code, number + sizeof number));
  write_text(2, "\n");
  _exit(3);
}

// One line on standard output.
__attribute__((format(printf, 1, 2))) inline void say(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  strcat(line, "\n");
  write_text(1, line);
}

// Writes a value that differs between runs, for the test to examine.
inline void figure(const char* name, long long value) {
  const char* path = getenv("GUEST_FIGURES");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  char number[24];
  char line[128];
  snprintf(line, sizeof line, "%s %s\n", name, number_text(value, number + sizeof number));
  write_text(file, line);
  close(file);
}

inline double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The time that a storm lasts, from its construction on.
class Storm {
 public:
  Storm() : end_(now() + seconds()) {}
  bool goes_on() const { return now() < end_; }
  static double seconds() {
    const char* text = getenv("GUEST_SECONDS");
    return text == nullptr ? 1.0 : atof(text);
  }

 private:
  double end_;
};

// The fake driver has 65,536 handles. A storm whose calls leave allocations behind ends when half of them are in use.
inline bool driver_has_room() { return guestDriverLive == nullptr || guestDriverLive() < 30000; }

inline CUcontext& primary_context() {
  static CUcontext context;
  return context;
}

// The calling thread gets the context of start_cuda().
inline void use_context() { CHECKED(cuCtxSetCurrent(primary_context())); }

inline void start_cuda() {
  CHECKED(cuInit(0));
  CHECKED(cuDevicePrimaryCtxRetain(&primary_context(), 0));
  use_context();
}

GUEST_FUNCTION inline CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr memory = 0;
  CHECKED(cuMemAlloc(&memory, bytes));
  KEEP_FRAME();
  return memory;
}

GUEST_FUNCTION inline void release(CUdeviceptr memory) {
  CHECKED(cuMemFree(memory));
  KEEP_FRAME();
}

GUEST_FUNCTION inline void pair(size_t bytes = 512) {
  release(allocate(bytes));
  KEEP_FRAME();
}

// An allocation through a path of calls that `path` chooses: two places at each of `depth` levels, so 2^depth different
// stacks.
GUEST_FUNCTION inline CUdeviceptr allocate_by_path(size_t bytes, uint64_t path, int depth) {
  CUdeviceptr memory = 0;
  if (depth == 0) {
    memory = allocate(bytes);
    KEEP_FRAME();
  } else if ((path & 1) != 0) {
    asm volatile("# left" ::: "memory");  // unlike the other text, else the compiler merges the calls
    memory = allocate_by_path(bytes, path >> 1, depth - 1);
    asm volatile("# left" ::: "memory");
  } else {
    asm volatile("# right" ::: "memory");
    memory = allocate_by_path(bytes, path >> 1, depth - 1);
    asm volatile("# right" ::: "memory");
  }
  return memory;
}

GUEST_FUNCTION inline void pair_by_path(uint64_t path, int depth) {
  release(allocate_by_path(512, path, depth));
  KEEP_FRAME();
}

inline uint64_t next_random(uint64_t* seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

}  // namespace guest
