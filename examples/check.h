// What every example needs: stop with a message when a CUDA call fails, and a look at the program's arguments.
//
// Not for the *_pasted programs: those keep the error handling of the person who asked.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// An expected verdict names functions, so the compiler must keep them.
#define EXAMPLE_NOINLINE __attribute__((noinline))

// The exit code of a program that cannot run here (a second GPU is missing, say); ctest and check-examples.py know it.
constexpr int kExitSkipped = 77;

// Ends the program with exit code 1 and a line on stderr when `status` is an error; `what` says what was tried.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

// Says whether `name` is one of the program's arguments.
inline bool has_argument(int argc, char** argv, const char* name) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return true;
  }
  return false;
}
