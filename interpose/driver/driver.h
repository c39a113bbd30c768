// The driver functions that recording itself calls. Found once in libcuda's own symbol table; never our hooks.
#pragma once

#include <cuda.h>

namespace culprit {

#define CULPRIT_DRIVER_CALLS(X)   \
  X(cuCtxGetCurrent)              \
  X(cuCtxGetDevice)               \
  X(cuCtxPushCurrent_v2)          \
  X(cuCtxPopCurrent_v2)           \
  X(cuDeviceGetDefaultMemPool)    \
  X(cuDeviceGetName)              \
  X(cuDeviceGetUuid)              \
  X(cuDeviceGetUuid_v2)           \
  X(cuDevicePrimaryCtxGetState)   \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDriverGetVersion)           \
  X(cuGetProcAddress)             \
  X(cuGetProcAddress_v2)          \
  X(cuMemGetInfo_v2)              \
  X(cuMemPoolGetAttribute)        \
  X(cuStreamGetCaptureInfo_v2)    \
  X(cuStreamIsCapturing)          \
  X(cuThreadExchangeStreamCaptureMode)

struct Driver {
#define CULPRIT_MEMBER(name) decltype(&::name) name;
  CULPRIT_DRIVER_CALLS(CULPRIT_MEMBER)
#undef CULPRIT_MEMBER
};

// Valid once driver_ready() has returned true. A function that this driver does not have is nullptr; the ones that
// every driver since CUDA 11.0 has are never.
const Driver& driver();

// True when libcuda was found. Looks for it the first time, and again as long as it is not there. Cheap afterwards.
bool driver_ready();

// Whether a library of CUDA's is loaded: the driver, or a runtime.
bool cuda_is_loaded();

}  // namespace culprit
