// The common part of the examples: a check of each CUDA call, and a test for arguments.
//
// The *_pasted programs do not use this file: they keep the error handling of the question.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// Expected verdicts name functions, so the compiler must not inline them.
#define EXAMPLE_NOINLINE __attribute__((noinline))

// Exit code of a program that cannot run here, for example without a second GPU. ctest and check-examples.py know it.
constexpr int kExitSkipped = 77;

// Ends the program with exit code 1 and a line on stderr when `status` is an error. `what` names the failed action.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

// Returns whether `name` is one of the program's arguments.
inline bool has_argument(int argc, char** argv, const char* name) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return true;
  }
  return false;
}
