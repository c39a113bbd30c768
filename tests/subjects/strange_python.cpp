// leak_one through the driver API, in a process with the names of a Python that culprit does not read: a build without
// a GIL (FREE_THREADED), or a version to come.
#include <cuda.h>

#include "tests/subjects/check.h"

#define EXPORTED extern "C" __attribute__((visibility("default"), used))

EXPORTED char _PyRuntime[4096] = {};
#ifdef FREE_THREADED
EXPORTED const unsigned long Py_Version = 0x030e00f0;
EXPORTED void _Py_DecRefShared(void*) {}
#else
EXPORTED const unsigned long Py_Version = 0x03ff00f0;
#endif

SUBJECT_FUNCTION void leak_here() {
  CUdeviceptr pointer = 0;
  CHECKED(cuMemAlloc(&pointer, 11001));
}

int main() {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  leak_here();
  return 0;
}
