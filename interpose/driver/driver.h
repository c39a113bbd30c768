// The driver functions that recording itself calls, of the libcuda that the calling thread uses. They are found in
// libcuda's own symbol table, and are never our hooks.
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
  X(cuDevicePrimaryCtxRelease)    \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDriverGetVersion)           \
  X(cuGetProcAddress)             \
  X(cuGetProcAddress_v2)          \
  X(cuMemGetInfo_v2)              \
  X(cuMemPoolGetAttribute)        \
  X(cuPointerGetAttributes)       \
  X(cuStreamGetCaptureInfo_v2)    \
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

// The calling thread's driver: the one whose function the program called in the current hook. Outside of a hook
// a driver may be closed at any moment, so that all functions are absent; but see DriverUse (loaded_drivers.h).
const Driver& driver();

// Returns true once the calling thread has a driver. Searches for libcuda on each call until then; cheap afterwards.
bool driver_ready();

// Whether a module is libcuda, by its name.
bool is_libcuda(const ElfModule& module, const char* path);

// Whether a dlopen handle is that of a known driver.
bool is_driver_handle(const void* handle);

// The address range of the first libcuda. Returns false when none is mapped.
bool driver_range(std::uint64_t* begin, std::uint64_t* end);

// Whether a CUDA library is loaded: the driver, or a runtime.
bool cuda_is_loaded();

// Makes a context current while it exists. Does nothing where the driver could not take it back afterwards.
class PushedContext {
 public:
  explicit PushedContext(CUcontext context)
      : pushed_(context != nullptr && driver().cuCtxPopCurrent_v2.is_there() &&
                driver().cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {}
  ~PushedContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver().cuCtxPopCurrent_v2(&popped);
  }
  PushedContext(const PushedContext&) = delete;
  PushedContext& operator=(const PushedContext&) = delete;
  bool done() const { return pushed_; }

 private:
  bool pushed_;
};

// Retains the primary context of a device while it exists; get() is nullptr where it is not active, or where the driver
// could not release it again.
class RetainedPrimary {
 public:
  explicit RetainedPrimary(CUdevice device);
  ~RetainedPrimary();
  RetainedPrimary(const RetainedPrimary&) = delete;
  RetainedPrimary& operator=(const RetainedPrimary&) = delete;
  CUcontext get() const { return context_; }

 private:
  CUdevice device_;
  CUcontext context_ = nullptr;
};

}  // namespace culprit
