// leak_one through the driver API, in a context of its own.
#include <cuda.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_here() {
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 11001));
}

SUBJECT_FUNCTION void allocate_and_free() {
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 20001));
  CHECKED(cuMemFree(pointer));
}

int main() {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  leak_here();
  allocate_and_free();
  return 0;
}
