// Leaves 11001 bytes to the end of their context, which ends in the way given by the argument.
#include <cuda.h>

#include <cstring>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void allocate_here() {
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 11001));
}

SUBJECT_FUNCTION void destroy_context(CUcontext context) { CHECKED(cuCtxDestroy(context)); }
SUBJECT_FUNCTION void reset_primary() { CHECKED(cuDevicePrimaryCtxReset(0)); }
SUBJECT_FUNCTION void release_first() { CHECKED(cuDevicePrimaryCtxRelease(0)); }
SUBJECT_FUNCTION void release_last() { CHECKED(cuDevicePrimaryCtxRelease(0)); }

int main(int, char** argv) {
  const char* how = argv[1];
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  if (std::strcmp(how, "destroy") == 0) {
#if CUDA_VERSION >= 13000
    CHECKED(cuCtxCreate(&context, nullptr, 0, 0));
#else
    CHECKED(cuCtxCreate(&context, 0, 0));
#endif
    allocate_here();
    destroy_context(context);
    return 0;
  }
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  allocate_here();
  if (std::strcmp(how, "reset") == 0) reset_primary();
  if (std::strcmp(how, "release-one") == 0) release_first();
  if (std::strcmp(how, "release-both") == 0) {
    release_first();
    release_last();
  }
  return 0;
}
