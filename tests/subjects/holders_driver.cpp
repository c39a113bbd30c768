// Physical memory (cuMemCreate) whose handle (argument "handle") or mapped address (argument "address") a global keeps.
#include <cuda.h>

#include <cstring>

#include "tests/subjects/check.h"

static CUmemGenericAllocationHandle g_handle = 0;
static CUdeviceptr g_address = 0;

SUBJECT_FUNCTION CUmemGenericAllocationHandle create_here(size_t* bytes) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECKED(cuMemGetAllocationGranularity(bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle handle = 0;
  CHECKED(cuMemCreate(&handle, *bytes, &properties, 0));
  return handle;
}

int main(int, char** argv) {
  CHECKED(cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  size_t bytes = 0;
  if (std::strcmp(argv[1], "handle") == 0) {
    g_handle = create_here(&bytes);
  } else {
    CUmemGenericAllocationHandle handle = create_here(&bytes);
    CHECKED(cuMemAddressReserve(&g_address, bytes, 0, 0, 0));
    CHECKED(cuMemMap(g_address, bytes, 0, handle, 0));
    CHECKED(cuMemRelease(handle));
  }
  return g_handle == 1 && g_address == 1;
}
