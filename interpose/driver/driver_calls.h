// The driver functions that recording itself calls. They are found in libcuda's own symbol table, and are never our
// hooks.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace culprit {

struct ElfModule;

#define CULPRIT_DRIVER_CALLS(X)   \
  X(cuCtxGetCurrent)              \
  X(cuCtxGetDevice)               \
  X(cuCtxGetLimit)                \
  X(cuCtxPopCurrent_v2)           \
  X(cuCtxPushCurrent_v2)          \
  X(cuDeviceGetAttribute)         \
  X(cuDeviceGetDefaultMemPool)    \
  X(cuDeviceGetGraphMemAttribute) \
  X(cuDeviceGetName)              \
  X(cuDeviceGetUuid)              \
  X(cuDeviceGetUuid_v2)           \
  X(cuDevicePrimaryCtxGetState)   \
  X(cuDevicePrimaryCtxRelease)    \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDriverGetVersion)           \
  X(cuEventCreate)                \
  X(cuEventDestroy_v2)            \
  X(cuEventQuery)                 \
  X(cuEventRecord)                \
  X(cuGetProcAddress)             \
  X(cuGetProcAddress_v2)          \
  X(cuLaunchKernel)               \
  X(cuLibraryGetGlobal)           \
  X(cuMemAlloc_v2)                \
  X(cuMemFree_v2)                 \
  X(cuMemGetInfo_v2)              \
  X(cuMemPoolGetAttribute)        \
  X(cuMemcpyDtoHAsync_v2)         \
  X(cuMemcpyHtoDAsync_v2)         \
  X(cuMemsetD8Async)              \
  X(cuModuleGetFunction)          \
  X(cuModuleGetGlobal_v2)         \
  X(cuModuleLoadData)             \
  X(cuModuleUnload)               \
  X(cuPointerGetAttributes)       \
  X(cuStreamCreate)               \
  X(cuStreamDestroy_v2)           \
  X(cuStreamGetCaptureInfo_v2)    \
  X(cuStreamQuery)                \
  X(cuStreamSynchronize)          \
  X(cuThreadExchangeStreamCaptureMode)

// A function that the driver may lack. A call of an absent one returns CUDA_ERROR_NOT_FOUND: no caller has to test it.
template <typename Function>
class DriverCall;
template <typename... Parameters>
class DriverCall<CUresult (*)(Parameters...)> {
 public:
  using Function = CUresult (*)(Parameters...);
  CUresult operator()(Parameters... arguments) const {
    // One load: the driver may be closed meanwhile (loaded_drivers.h).
    const Function call = __atomic_load_n(&call_, __ATOMIC_RELAXED);
    return call == nullptr ? CUDA_ERROR_NOT_FOUND : call(arguments...);
  }
  bool is_there() const { return __atomic_load_n(&call_, __ATOMIC_RELAXED) != nullptr; }
  void set(std::uint64_t address) { __atomic_store_n(&call_, reinterpret_cast<Function>(address), __ATOMIC_RELAXED); }

 private:
  Function call_;
};

// Every function is optional: an old driver, a virtual GPU's or another vendor's has fewer.
struct Driver {
#define CULPRIT_MEMBER(name) DriverCall<decltype(&::name)> name;
  CULPRIT_DRIVER_CALLS(CULPRIT_MEMBER)
#undef CULPRIT_MEMBER
};

// Whether a module is libcuda, by its name.
bool is_libcuda(const ElfModule& module, const char* path);

}  // namespace culprit
