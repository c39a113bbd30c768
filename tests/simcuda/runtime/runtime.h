// The simulated CUDA runtime: thin functions over the driver, which it reaches exactly as NVIDIA's does:
//
//     dlopen("libcuda.so.1") -> dlsym "cuGetProcAddress_v2" -> every entry point, by versionless name
//
// at the first runtime call, retaining the device's primary context. The same objects make the shared and the static
// library, so there is no C++ runtime in here: a C program can link the static one.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#define RUNTIME_EXPORT extern "C" __attribute__((visibility("default")))
#define RUNTIME_API(name) RUNTIME_EXPORT cudaError_t CUDARTAPI name

// A function with a twin for the per-thread default stream. The body sees the entry points to use as `driver`.
#define RUNTIME_STREAM_API(name, twin, parameters, arguments)                           \
  template <const ::simcudart::DriverTable& driver>                                     \
  static inline __attribute__((always_inline)) cudaError_t name##_in parameters;        \
  RUNTIME_API(name) parameters { return name##_in<::simcudart::legacy> arguments; }     \
  RUNTIME_API(twin) parameters { return name##_in<::simcudart::per_thread> arguments; } \
  template <const ::simcudart::DriverTable& driver>                                     \
  static inline cudaError_t name##_in parameters

// Loads the driver if necessary. With a context: also makes the current device's primary context current if there is
// none.
#define RUNTIME_NEEDS_DRIVER() \
  if (cudaError_t not_ready = ::simcudart::load_driver()) return ::simcudart::failed(not_ready)
#define RUNTIME_NEEDS_CONTEXT() \
  if (cudaError_t not_ready = ::simcudart::bind_context()) return ::simcudart::failed(not_ready)

namespace simcudart {

struct DriverTable {
#define ENTRY(name, function) decltype(&::function) name;
#include "tests/simcuda/runtime/driver_entries.def"
};

extern DriverTable legacy;      // stream 0 is the legacy default stream
extern DriverTable per_thread;  // stream 0 is the calling thread's own

cudaError_t load_driver();
cudaError_t bind_context();
// Makes a device the calling thread's; its primary context becomes current.
cudaError_t select_device(int device);
int selected_device();
// cudaDeviceReset.
cudaError_t reset_device();

// Records the error for cudaGetLastError and returns it.
cudaError_t failed(cudaError_t error);
// The runtime's code for a driver's code (they are the same numbers); an error is recorded.
inline cudaError_t done(CUresult status) {
  return status == CUDA_SUCCESS ? cudaSuccess : failed(static_cast<cudaError_t>(status));
}

// Loads the fat binaries that the program registered. Call it with the runtime's lock held.
CUresult load_registered_libraries();
// The driver's handle of a __global__ function, nullptr when it is not registered.
CUkernel find_kernel(const void* host_function);
// The device address of a __device__ variable; false when it is not registered.
bool find_symbol(const void* host_variable, CUdeviceptr* address, std::size_t* bytes);
void forget_loaded_libraries();

// Guards the runtime's tables.
struct Lock {
  Lock();
  ~Lock();
};

template <typename To, typename From>
To as(From from) {
  return reinterpret_cast<To>(from);
}
inline CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline void* pointer_to(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace simcudart
