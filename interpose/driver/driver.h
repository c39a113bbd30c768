// The libcuda that the calling thread uses, and the functions of it that recording itself calls (driver_calls.h).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/driver/driver_calls.h"

namespace culprit {

// The calling thread's driver: the one whose function the program called in the current hook. Outside of a hook
// a driver may be closed at any moment, so that all functions are absent; but see DriverUse (loaded_drivers.h).
const Driver& driver();

// Returns true once the calling thread has a driver. Searches for libcuda on each call until then; cheap afterwards.
bool driver_ready();

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
