// Functions for the benchmark's Python program, which calls them through ctypes: pairs of cuMemAllocAsync and
// cuMemFreeAsync, all from one line of Python.
#include <cuda.h>

#include "tests/bench/measure.h"

using bench::check;

// Makes the first device's primary context current. Kept until the process ends.
extern "C" __attribute__((visibility("default"))) void bench_begin() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  check(cuInit(0), "initialize");
  check(cuDeviceGet(&device, 0), "find a device");
  check(cuDevicePrimaryCtxRetain(&context, device), "retain the primary context");
  check(cuCtxSetCurrent(context), "make the context current");
}

extern "C" __attribute__((visibility("default"))) void bench_pairs(long calls) {
  for (long i = 0; i < calls; ++i) {
    CUdeviceptr memory = 0;
    check(cuMemAllocAsync(&memory, 4096, nullptr), "allocate");
    check(cuMemFreeAsync(memory, nullptr), "free");
  }
}
