// Leaves 11001 bytes to the end of their context, which ends in the way given by the argument.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void allocate_here() {
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 11001));
}

// The function with exactly this symbol, which cuda.h hides behind a newer version.
CUresult (*by_symbol(const char* name))(CUdevice) {
  return reinterpret_cast<CUresult (*)(CUdevice)>(dlsym(RTLD_DEFAULT, name));
}

SUBJECT_FUNCTION void destroy_context(CUcontext context) { CHECKED(cuCtxDestroy(context)); }
SUBJECT_FUNCTION void reset_primary() { CHECKED(cuDevicePrimaryCtxReset(0)); }
SUBJECT_FUNCTION void reset_old() { CHECKED(by_symbol("cuDevicePrimaryCtxReset")(0)); }
SUBJECT_FUNCTION void release_old() { CHECKED(by_symbol("cuDevicePrimaryCtxRelease")(0)); }
SUBJECT_FUNCTION void destroy_green(CUgreenCtx context) { CHECKED(cuGreenCtxDestroy(context)); }
SUBJECT_FUNCTION void release_first() { CHECKED(cuDevicePrimaryCtxRelease(0)); }
SUBJECT_FUNCTION void release_last() { CHECKED(cuDevicePrimaryCtxRelease(0)); }

// A green context, and the context made from it, is current when the memory is allocated.
void run_green() {
  CUdevResource all = {};
  CHECKED(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CUdevResourceDesc description = nullptr;
  CHECKED(cuDevResourceGenerateDesc(&description, &all, 1));
  CUgreenCtx green = nullptr;
  CHECKED(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CUcontext context = nullptr;
  CHECKED(cuCtxFromGreenCtx(&context, green));
  CHECKED(cuCtxSetCurrent(context));
  allocate_here();
  destroy_green(green);
}

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
  if (std::strcmp(how, "green") == 0) {
    CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
    run_green();
    return 0;
  }
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  allocate_here();
  if (std::strcmp(how, "reset") == 0) reset_primary();
  if (std::strcmp(how, "reset-old") == 0) reset_old();
  if (std::strcmp(how, "release-one") == 0) release_first();
  if (std::strcmp(how, "release-both") == 0) {
    release_first();
    release_last();
  }
  if (std::strcmp(how, "release-old") == 0) {
    release_first();
    release_old();
  }
  return 0;
}
