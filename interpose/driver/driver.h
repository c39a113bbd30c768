// The driver functions that recording itself calls. They are found once in libcuda's own symbol table, and are never
// our hooks.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace culprit {

struct ElfModule;

#define CULPRIT_DRIVER_CALLS(X)   \
  X(cuCtxGetLimit)                \
  X(cuCtxGetCurrent)              \
  X(cuCtxGetDevice)               \
  X(cuCtxPushCurrent_v2)          \
  X(cuCtxPopCurrent_v2)           \
  X(cuDeviceGetAttribute)         \
  X(cuDeviceGetDefaultMemPool)    \
  X(cuDeviceGetGraphMemAttribute) \
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
  X(cuPointerGetAttributes)       \
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

// Whether a module is libcuda.
bool is_libcuda(const ElfModule& module);

// Whether an address lies in libcuda; whether a dlopen handle is libcuda's. false as long as libcuda is not mapped.
bool in_driver(const void* address);
bool is_driver_handle(const void* handle);

// The address range of libcuda. Returns false when it is not mapped.
bool driver_range(std::uint64_t* begin, std::uint64_t* end);

// Whether a CUDA library is loaded: the driver, or a runtime.
bool cuda_is_loaded();

}  // namespace culprit
