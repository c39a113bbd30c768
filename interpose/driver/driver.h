// The driver functions that recording itself calls. They are found once in libcuda's own symbol table, and are never
// our hooks.
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

// Valid once driver_ready() has returned true. A function that this driver lacks is nullptr. Functions of CUDA 11.0 are
// always present.
const Driver& driver();

// Returns true once libcuda was found. Searches for it on each call until then; cheap afterwards.
bool driver_ready();

// Whether a CUDA library is loaded: the driver, or a runtime.
bool cuda_is_loaded();

}  // namespace culprit
