// A library that a program loads, calls and unloads again.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION static void leak_in_plugin() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

extern "C" __attribute__((visibility("default"))) void plugin_work() { leak_in_plugin(); }
