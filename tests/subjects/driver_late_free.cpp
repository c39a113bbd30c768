// late_free through the driver API: the driver refuses the free because it is shutting down.
#include <cuda.h>

#include "tests/subjects/check.h"

struct Cache {
  CUdeviceptr pointer = 0;
  ~Cache() { cuMemFree(pointer); }
};

static Cache cache;

SUBJECT_FUNCTION void fill_cache() {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  CHECKED(cuMemAlloc(&cache.pointer, 11001));
}

int main() {
  fill_cache();
  return 0;
}
