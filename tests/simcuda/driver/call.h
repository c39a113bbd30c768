// How a driver function begins: SIM(cuMemAlloc_v2)(CUdeviceptr* out, size_t bytes) { SIM_CALL(kContext); ... }
#pragma once

#include <cuda.h>

#include "tests/simcuda/driver/driver_state.h"

// Defines the implementation of an exported function. The declaration that comes with it makes the compiler compare the
// parameters with cuda.h; the exported name itself is a thunk (entry_thunks.inc).
#define SIM(name)                       \
  extern "C" decltype(name) sim_##name; \
  extern "C" CUresult CUDAAPI sim_##name

// Takes the lock and returns the driver's own error when the driver is not in the required state.
#define SIM_CALL(need)                         \
  ::simcuda::Call call(::simcuda::Need::need); \
  if (call.status() != CUDA_SUCCESS) return call.status()

namespace simcuda {

enum class Need {
  kInit,     // cuInit was called
  kContext,  // and a context that still lives is current
};

// One call into the driver. Holds the driver's lock while it lives.
class Call {
 public:
  explicit Call(Need need);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  CUresult status() const { return status_; }
  DriverState& state() const { return *state_; }
  Context& context() const { return *context_; }
  Device& device() const { return *state_->devices[context_->device]; }
  Device* device(int ordinal) const {
    return ordinal >= 0 && ordinal < static_cast<int>(state_->devices.size()) ? state_->devices[ordinal].get()
                                                                              : nullptr;
  }

 private:
  CUresult status_;
  DriverState* state_ = nullptr;
  Context* context_ = nullptr;
};

// The current context of a thread. Its serial is kept, since the address may be another context's by now.
struct CurrentContext {
  Context* context;
  std::uint64_t serial;
};

struct ThreadState {
  std::uint64_t generation = 0;  // of the driver state that the stack belongs to; a fork child starts a new one
  std::vector<CurrentContext> stack;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

// The calling thread's state, without contexts of an earlier driver state. Call with the lock held.
ThreadState& thread_state();
bool is_alive(const DriverState& state, const CurrentContext& current);

// cuInit: creates the driver state from the environment. Returns CUDA_SUCCESS when it exists already.
CUresult initialize_driver();

}  // namespace simcuda
