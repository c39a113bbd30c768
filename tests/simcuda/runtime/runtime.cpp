#include "tests/simcuda/runtime/runtime.h"

#include <dlfcn.h>
#include <pthread.h>

namespace simcudart {

DriverTable legacy;
DriverTable per_thread;

namespace {

constexpr int kVersion = 13000;
constexpr int kMaxDevices = 64;

struct PrimaryContext {
  CUcontext context;
  bool retained;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
bool loaded;  // written under the mutex, read without it
cudaError_t load_error;
PrimaryContext primaries[kMaxDevices];
int device_count;
// Advances when a primary context is retained anew: threads in which the old one is current must set it again.
std::uint64_t epoch = 1;

thread_local int device;
thread_local std::uint64_t bound_epoch;
thread_local cudaError_t last_error;

void after_fork_in_child() {
  // The driver is re-initialized in a fork child, so everything that came from it is invalid.
  pthread_mutex_init(&mutex, nullptr);
  __atomic_store_n(&loaded, false, __ATOMIC_RELEASE);
  for (PrimaryContext& primary : primaries) primary = {};
  ++epoch;
  forget_loaded_libraries();
}

template <typename Function>
void resolve(decltype(&::cuGetProcAddress_v2) get, const char* name, Function* out, cuuint64_t flags) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult result;
  get(name, &address, kVersion, flags, &result);
  *out = reinterpret_cast<Function>(address);
}

cudaError_t load_locked() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return cudaErrorInsufficientDriver;
  auto get = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return cudaErrorInsufficientDriver;
#define ENTRY(name, function)                                           \
  resolve(get, #name, &legacy.name, CU_GET_PROC_ADDRESS_LEGACY_STREAM); \
  resolve(get, #name, &per_thread.name, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#include "tests/simcuda/runtime/driver_entries.def"
  if (CUresult status = legacy.cuInit(0)) return static_cast<cudaError_t>(status);
  if (CUresult status = legacy.cuDeviceGetCount(&device_count)) return static_cast<cudaError_t>(status);
  if (device_count > kMaxDevices) device_count = kMaxDevices;
  return cudaSuccess;
}

// Makes the primary context of a device current in the calling thread.
cudaError_t bind_primary(int ordinal) {
  Lock lock;
  PrimaryContext& primary = primaries[ordinal];
  bool fresh = !primary.retained;
  if (fresh) {
    if (CUresult status = legacy.cuDevicePrimaryCtxRetain(&primary.context, ordinal))
      return static_cast<cudaError_t>(status);
    primary.retained = true;
    ++epoch;
  }
  if (CUresult status = legacy.cuCtxSetCurrent(primary.context)) return static_cast<cudaError_t>(status);
  bound_epoch = epoch;
  if (fresh) {
    if (CUresult status = load_registered_libraries()) return static_cast<cudaError_t>(status);
  }
  return cudaSuccess;
}

// The last step of a clean program. The driver's own exit handler has run by then, and answers "shutting down".
__attribute__((destructor)) void release_primaries() {
  if (!__atomic_load_n(&loaded, __ATOMIC_ACQUIRE) || load_error != cudaSuccess) return;
  for (int i = 0; i < device_count; ++i) {
    if (!primaries[i].retained) continue;
    primaries[i].retained = false;
    legacy.cuDevicePrimaryCtxRelease(i);
  }
}

}  // namespace

Lock::Lock() { pthread_mutex_lock(&mutex); }
Lock::~Lock() { pthread_mutex_unlock(&mutex); }

cudaError_t load_driver() {
  if (__atomic_load_n(&loaded, __ATOMIC_ACQUIRE)) return load_error;
  Lock lock;
  if (loaded) return load_error;
  static bool fork_handler_installed;
  if (!fork_handler_installed) pthread_atfork(nullptr, nullptr, after_fork_in_child);
  fork_handler_installed = true;
  load_error = load_locked();
  __atomic_store_n(&loaded, true, __ATOMIC_RELEASE);
  return load_error;
}

cudaError_t bind_context() {
  if (cudaError_t error = load_driver()) return error;
  CUcontext current = nullptr;
  if (CUresult status = legacy.cuCtxGetCurrent(&current)) return static_cast<cudaError_t>(status);
  if (current == nullptr) return bind_primary(device);
  if (bound_epoch == __atomic_load_n(&epoch, __ATOMIC_RELAXED)) return cudaSuccess;
  for (int i = 0; i < device_count; ++i) {
    if (primaries[i].context == current) return bind_primary(i);
  }
  return cudaSuccess;  // a context that the program made itself
}

cudaError_t select_device(int ordinal) {
  if (cudaError_t error = load_driver()) return error;
  if (ordinal < 0 || ordinal >= device_count) return cudaErrorInvalidDevice;
  device = ordinal;
  return bind_primary(ordinal);
}

int selected_device() {
  CUcontext current = nullptr;
  int ordinal = device;
  if (legacy.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) legacy.cuCtxGetDevice(&ordinal, nullptr);
  return ordinal;
}

cudaError_t reset_device() {
  if (cudaError_t error = load_driver()) return error;
  int ordinal = selected_device();
  Lock lock;
  CUresult status = legacy.cuDevicePrimaryCtxReset(ordinal);
  if (status != CUDA_SUCCESS) return static_cast<cudaError_t>(status);
  primaries[ordinal].retained = false;  // the next call retains it anew, which makes it usable again
  ++epoch;
  return cudaSuccess;
}

cudaError_t failed(cudaError_t error) {
  last_error = error;
  return error;
}

}  // namespace simcudart

RUNTIME_API(cudaGetLastError)(void) {
  cudaError_t error = simcudart::last_error;
  simcudart::last_error = cudaSuccess;
  return error;
}

RUNTIME_API(cudaPeekAtLastError)(void) { return simcudart::last_error; }

RUNTIME_API(cudaRuntimeGetVersion)(int* version) {
  if (version == nullptr) return simcudart::failed(cudaErrorInvalidValue);
  *version = simcudart::kVersion;
  return cudaSuccess;
}
