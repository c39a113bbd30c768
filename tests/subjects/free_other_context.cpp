// Allocates in one context and frees while another one is current; both contexts are destroyed before the end.
#include <cuda.h>

#include "tests/subjects/check.h"

static CUcontext create_context() {
  CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
  CHECKED(cuCtxCreate(&context, nullptr, 0, 0));
#else
  CHECKED(cuCtxCreate(&context, 0, 0));
#endif
  return context;
}

int main() {
  CHECKED(cuInit(0));
  CUcontext first = create_context();
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 11001));
  CUcontext second = create_context();
  CHECKED(cuMemFree(pointer));
  CHECKED(cuCtxDestroy(second));
  CHECKED(cuCtxDestroy(first));
  return 0;
}
