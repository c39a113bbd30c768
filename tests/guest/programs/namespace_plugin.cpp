// The library that other_namespace and unloading load.
#include <cuda.h>

// Leaks one allocation.
extern "C" int use_cuda_in_plugin() {
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0) return 1;
  for (int i = 0; i < 100; ++i) {
    if (cuMemAlloc(&memory, 512) != 0 || cuMemFree(memory) != 0) return 2;
  }
  return cuMemAlloc(&memory, 11001) == 0 ? 42 : 3;
}

extern "C" int pair_in_plugin() {
  CUdeviceptr memory = 0;
  return cuMemAlloc(&memory, 512) == 0 && cuMemFree(memory) == 0 ? 7 : 1;
}
