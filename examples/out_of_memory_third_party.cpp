// libthird.so, the library of out_of_memory_library.cpp. Built without debug information, and stripped.
#include <cuda_runtime.h>

// Scales `count` numbers on the GPU. Returns 0, or 1 when a CUDA call failed. Does not free its scratch buffer: that
// is the leak to find.
extern "C" __attribute__((visibility("default"))) int third_normalize(float* data, size_t count) {
  void* scratch = nullptr;
  if (cudaMalloc(&scratch, count * sizeof(float)) != cudaSuccess) return 1;
  return cudaMemcpy(scratch, data, count * sizeof(float), cudaMemcpyDeviceToDevice) == cudaSuccess ? 0 : 1;
}
