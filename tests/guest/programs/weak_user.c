// A library that is linked to libcuda, has strong references to it, and leaves one allocation behind.
#include <cuda.h>

__attribute__((visibility("default"))) int use_driver(void) {
  CUcontext context;
  CUdeviceptr memory = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return 1;
  if (cuCtxSetCurrent(context) != CUDA_SUCCESS) return 2;
  return cuMemAlloc(&memory, 11001) == CUDA_SUCCESS ? 0 : 3;
}
