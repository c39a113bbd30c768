// A driver that cannot hang: no lock, no malloc, no libc at all (-nostdlib). A program on it may call CUDA in any
// signal handler, in a fork child, and on a stack of 8 KiB; a hang or crash is then not the driver's fault.
//
// It exports the same functions as tests/simcuda (the same lists). Functions that guests do not need return
// CUDA_ERROR_NOT_SUPPORTED.
#include <cuda.h>

#include "tests/guest/driver/guest_driver.h"
#include "tests/guest/driver/handle_table.h"

#define FAKE(name)                      \
  extern "C" decltype(name) sim_##name; \
  extern "C" CUresult CUDAAPI sim_##name

// entry_thunks.inc asks whether a call has an answer already (guestDriverAnswer), and for an observer: there is none.
extern "C" {
__attribute__((visibility("hidden"))) uint8_t simcuda_failures_armed = 0;
__attribute__((visibility("hidden"))) void* simcuda_observer = nullptr;
__attribute__((visibility("hidden"))) int simcuda_injected_failure(const char* name);
}

// The functions whose calls are counted, in any order.
#define FAKE_COUNTED(X)  \
  X(cuInit)              \
  X(cuMemAlloc_v2)       \
  X(cuMemFree_v2)        \
  X(cuMemAllocAsync)     \
  X(cuMemFreeAsync)      \
  X(cuMemAllocHost_v2)   \
  X(cuMemFreeHost)       \
  X(cuEventCreate)       \
  X(cuEventDestroy_v2)   \
  X(cuStreamCreate)      \
  X(cuStreamDestroy_v2)  \
  X(cuCtxCreate_v2)      \
  X(cuCtxDestroy_v2)     \
  X(cuCtxPushCurrent_v2) \
  X(cuCtxPopCurrent_v2)  \
  X(cuCtxSetCurrent)

namespace {

using fake::Kind;

enum Counted {
#define COUNTED(name) kCalls_##name,
  FAKE_COUNTED(COUNTED)
#undef COUNTED
      kCallsEnd
};

uint64_t calls[kCallsEnd];
bool initialized;
uint64_t stack_use;
fake::HandleTable handles;
char primary_context;  // its address is the handle

constexpr int kMostContexts = 8;
constexpr uint64_t kTotalBytes = uint64_t{141} << 30;

struct Current {
  CUcontext contexts[kMostContexts];
  int count;
};
#ifdef GUEST_DRIVER_WITHOUT_TLS
// By the address of the thread's control block, which a later thread may have again.
struct CurrentOfThread {
  uint64_t thread;
  Current current;
};
constexpr uint64_t kMostThreads = 1024;
CurrentOfThread threads[kMostThreads];
Current& current_of_thread() {
  const uint64_t self = reinterpret_cast<uint64_t>(__builtin_thread_pointer());
  for (uint64_t at = self >> 6;; ++at) {
    CurrentOfThread& slot = threads[at % kMostThreads];
    uint64_t present = 0;
    if (__atomic_compare_exchange_n(&slot.thread, &present, self, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
        present == self)
      return slot.current;
  }
}
#define current (current_of_thread())
#else
// In the thread's own block: no call of __tls_get_addr, which may allocate.
__thread Current current __attribute__((tls_model("initial-exec")));
#endif

#define COUNT_CALL(name) __atomic_add_fetch(&calls[kCalls_##name], 1, __ATOMIC_RELAXED)

bool same(const char* left, const char* right) {
  while (*left != '\0' && *left == *right) ++left, ++right;
  return *left == *right;
}

void copy_text(char* to, int room, const char* from) {
  int at = 0;
  for (; from[at] != '\0' && at + 1 < room; ++at) to[at] = from[at];
  if (room > 0) to[at] = '\0';
}

// Touches as much stack as guestDriverUseStack() asked for.
__attribute__((noinline)) void use_stack() {
  const uint64_t bytes = __atomic_load_n(&stack_use, __ATOMIC_RELAXED);
  if (bytes == 0) return;
  volatile char* room = static_cast<volatile char*>(__builtin_alloca(bytes));
  for (uint64_t at = 0; at < bytes; at += 64) room[at] = 1;
}

CUcontext current_context() { return current.count == 0 ? nullptr : current.contexts[current.count - 1]; }

CUresult make_memory(CUdeviceptr* out, size_t bytes, Kind kind) {
  use_stack();
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kTotalBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t handle = handles.make(kind, bytes);
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult end_memory(CUdeviceptr pointer) {
  use_stack();
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (pointer == 0) return CUDA_SUCCESS;
  return handles.end(pointer, Kind::kMemory) || handles.end(pointer, Kind::kAsyncMemory) ? CUDA_SUCCESS
                                                                                         : CUDA_ERROR_INVALID_VALUE;
}

template <typename Handle>
CUresult make_object(Handle* out, Kind kind) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t handle = handles.make(kind, 0);
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<Handle>(handle);
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult end_object(Handle handle, Kind kind) {
  return handles.end(reinterpret_cast<uint64_t>(handle), kind) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult push_context(CUcontext context) {
  if (current.count == kMostContexts) return CUDA_ERROR_INVALID_VALUE;
  current.contexts[current.count] = context;
  ++current.count;
  return CUDA_SUCCESS;
}

struct Export {
  const char* name;
  void* address;
};

struct VersionRow {
  const char* name;
  int since;
  const char* function;
};

constexpr VersionRow kVersions[] = {
#include "driver_versions.inc"
};

int answer_to_all;  // of guestDriverAnswer()

// Queries that describe the device and the context.
constexpr const char* kAlwaysAnswered[] = {"cuCtxGetCurrent",    "cuCtxGetDevice",     "cuDeviceGetCount",
                                           "cuDeviceGetName",    "cuDeviceGetUuid_v2", "cuMemGetInfo_v2",
                                           "cuDriverGetVersion", "cuGetErrorName"};

}  // namespace

extern "C" int simcuda_injected_failure(const char* name) {
  for (const char* other : kAlwaysAnswered) {
    if (same(name, other)) return 0;
  }
  return __atomic_load_n(&answer_to_all, __ATOMIC_RELAXED);
}

extern "C" void guestDriverAnswer(int32_t code) {
  __atomic_store_n(&answer_to_all, code, __ATOMIC_RELAXED);
  __atomic_store_n(&simcuda_failures_armed, code != 0 ? 1 : 0, __ATOMIC_RELAXED);
}

// Generated (tests/simcuda/generate_entries.cmake), sorted by name.
extern "C" const Export simcuda_exports[];
extern "C" const uint64_t simcuda_export_count;

namespace {

// The exported function with the name `name` + `suffix`.
void* find_export(const char* name, const char* suffix) {
  for (uint64_t row = 0; row < simcuda_export_count; ++row) {
    const char* exported = simcuda_exports[row].name;
    const char* wanted = name;
    while (*wanted != '\0' && *wanted == *exported) ++wanted, ++exported;
    if (*wanted == '\0' && same(exported, suffix)) return simcuda_exports[row].address;
  }
  return nullptr;
}

CUresult look_up(const char* symbol, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* result) {
  if (symbol == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult ignored;
  if (result == nullptr) result = &ignored;
  *out = nullptr;
  *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  bool versioned = false;
  const char* function = symbol;
  for (const VersionRow& row : kVersions) {
    if (!same(row.name, symbol)) continue;
    if (!versioned) function = nullptr;
    versioned = true;
    if (row.since <= version) function = row.function;
  }
  if (function == nullptr) {
    *result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return CUDA_ERROR_NOT_FOUND;
  }
  if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) {
    *out = find_export(function, "_ptsz");
    if (*out == nullptr) *out = find_export(function, "_ptds");
  }
  if (*out == nullptr) *out = find_export(function, "");
  if (*out == nullptr) return CUDA_ERROR_NOT_FOUND;
  *result = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" uint64_t guestDriverCalls(const char* name) {
#define COUNTED(function) \
  if (same(name, #function)) return __atomic_load_n(&calls[kCalls_##function], __ATOMIC_RELAXED);
  FAKE_COUNTED(COUNTED)
#undef COUNTED
  return 0;
}
extern "C" uint64_t guestDriverLive(void) { return handles.live(); }
extern "C" void guestDriverUseStack(uint64_t bytes) { __atomic_store_n(&stack_use, bytes, __ATOMIC_RELAXED); }

extern "C" int guestDriverDoesNothing(void) { return CUDA_SUCCESS; }
extern "C" int guestDriverRefuses(void) { return CUDA_ERROR_NOT_SUPPORTED; }
extern "C" int guestDriverIsStub(void) { return CUDA_ERROR_STUB_LIBRARY; }

FAKE(cuGetProcAddress_v2)
(const char* symbol, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* result) {
  return look_up(symbol, out, version, flags, result);
}
FAKE(cuGetProcAddress)(const char* symbol, void** out, int version, cuuint64_t flags) {
  return look_up(symbol, out, version, flags, nullptr);
}

FAKE(cuInit)(unsigned) {
  COUNT_CALL(cuInit);
  initialized = true;
  return CUDA_SUCCESS;
}
FAKE(cuDriverGetVersion)(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
FAKE(cuGetErrorName)(CUresult, const char** text) {
  *text = "CUDA_ERROR_OF_THE_FAKE_DRIVER";
  return CUDA_SUCCESS;
}
FAKE(cuGetErrorString)(CUresult, const char** text) {
  *text = "an error of the fake driver";
  return CUDA_SUCCESS;
}

FAKE(cuDeviceGetCount)(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
FAKE(cuDeviceGet)(CUdevice* device, int ordinal) {
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}
FAKE(cuDeviceGetName)(char* name, int room, CUdevice) {
  copy_text(name, room, "Fake GPU");
  return CUDA_SUCCESS;
}
FAKE(cuDeviceGetUuid_v2)(CUuuid* uuid, CUdevice) {
  for (unsigned at = 0; at < sizeof uuid->bytes; ++at) uuid->bytes[at] = static_cast<char>(at);
  return CUDA_SUCCESS;
}
FAKE(cuDeviceGetAttribute)(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}
FAKE(cuDeviceTotalMem_v2)(size_t* bytes, CUdevice) {
  *bytes = kTotalBytes;
  return CUDA_SUCCESS;
}
FAKE(cuDeviceGetPCIBusId)(char* text, int room, CUdevice) {
  copy_text(text, room, "0000:01:00.0");
  return CUDA_SUCCESS;
}

FAKE(cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *context = reinterpret_cast<CUcontext>(&primary_context);
  return CUDA_SUCCESS;
}
FAKE(cuDevicePrimaryCtxRelease_v2)(CUdevice) { return CUDA_SUCCESS; }
FAKE(cuDevicePrimaryCtxReset_v2)(CUdevice) { return CUDA_SUCCESS; }
FAKE(cuDevicePrimaryCtxSetFlags_v2)(CUdevice, unsigned) { return CUDA_SUCCESS; }
FAKE(cuDevicePrimaryCtxGetState)(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
FAKE(cuCtxCreate_v2)(CUcontext* out, unsigned, CUdevice) {
  COUNT_CALL(cuCtxCreate_v2);
  const CUresult made = make_object(out, Kind::kContext);
  return made == CUDA_SUCCESS ? push_context(*out) : made;
}
FAKE(cuCtxCreate_v4)(CUcontext* out, CUctxCreateParams*, unsigned flags, CUdevice device) {
  return sim_cuCtxCreate_v2(out, flags, device);
}
FAKE(cuCtxDestroy_v2)(CUcontext context) {
  COUNT_CALL(cuCtxDestroy_v2);
  if (context == current_context()) --current.count;
  return end_object(context, Kind::kContext);
}
FAKE(cuCtxGetCurrent)(CUcontext* out) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *out = current_context();
  return CUDA_SUCCESS;
}
FAKE(cuCtxSetCurrent)(CUcontext context) {
  COUNT_CALL(cuCtxSetCurrent);
  // A handler of this thread may make the same stores between these two.
  const int count = current.count > 0 ? current.count : 1;
  current.contexts[count - 1] = context;
  current.count = context == nullptr ? count - 1 : count;
  return CUDA_SUCCESS;
}
FAKE(cuCtxPushCurrent_v2)(CUcontext context) {
  COUNT_CALL(cuCtxPushCurrent_v2);
  return push_context(context);
}
FAKE(cuCtxPopCurrent_v2)(CUcontext* out) {
  COUNT_CALL(cuCtxPopCurrent_v2);
  if (current.count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = current_context();
  --current.count;
  return CUDA_SUCCESS;
}
FAKE(cuCtxGetDevice)(CUdevice* device) {
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = 0;
  return CUDA_SUCCESS;
}
FAKE(cuCtxGetDevice_v2)(CUdevice* device, CUcontext context) {
  if (context == nullptr) context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = 0;
  return CUDA_SUCCESS;
}
FAKE(cuCtxSynchronize)(void) { return CUDA_SUCCESS; }

// Two functions whose arguments do not fit into registers: they accept these arguments only.
FAKE(cuLaunchKernel)
(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
 unsigned block_z, unsigned shared, CUstream stream, void** parameters, void** extra) {
  const bool right = grid_x == 1 && grid_y == 2 && grid_z == 3 && block_x == 4 && block_y == 5 && block_z == 6 &&
                     shared == 7 && reinterpret_cast<uint64_t>(function) == 10 &&
                     reinterpret_cast<uint64_t>(stream) == 11 && reinterpret_cast<uint64_t>(parameters) == 12 &&
                     reinterpret_cast<uint64_t>(extra) == 13;
  return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FAKE(cuIpcOpenEventHandle)(CUevent* out, CUipcEventHandle handle) {
  for (unsigned at = 0; at < sizeof handle.reserved; ++at) {
    if (handle.reserved[at] != static_cast<char>(at + 1)) return CUDA_ERROR_INVALID_VALUE;
  }
  return make_object(out, Kind::kEvent);
}

FAKE(cuMemAlloc_v2)(CUdeviceptr* out, size_t bytes) {
  COUNT_CALL(cuMemAlloc_v2);
  return make_memory(out, bytes, Kind::kMemory);
}
FAKE(cuMemAllocManaged)(CUdeviceptr* out, size_t bytes, unsigned) { return make_memory(out, bytes, Kind::kMemory); }
FAKE(cuMemAllocPitch_v2)(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return make_memory(out, *pitch * height, Kind::kMemory);
}
FAKE(cuMemAllocAsync)(CUdeviceptr* out, size_t bytes, CUstream) {
  COUNT_CALL(cuMemAllocAsync);
  return make_memory(out, bytes, Kind::kAsyncMemory);
}
FAKE(cuMemFree_v2)(CUdeviceptr pointer) {
  COUNT_CALL(cuMemFree_v2);
  return end_memory(pointer);
}
FAKE(cuMemFreeAsync)(CUdeviceptr pointer, CUstream) {
  COUNT_CALL(cuMemFreeAsync);
  return end_memory(pointer);
}
// The memory is not writable; guests only allocate and free it.
FAKE(cuMemAllocHost_v2)(void** out, size_t bytes) {
  COUNT_CALL(cuMemAllocHost_v2);
  CUdeviceptr handle = 0;
  const CUresult made = make_memory(&handle, bytes, Kind::kHostMemory);
  if (made == CUDA_SUCCESS) *out = reinterpret_cast<void*>(handle);
  return made;
}
FAKE(cuMemHostAlloc)(void** out, size_t bytes, unsigned) { return sim_cuMemAllocHost_v2(out, bytes); }
FAKE(cuMemFreeHost)(void* pointer) {
  COUNT_CALL(cuMemFreeHost);
  return handles.end(reinterpret_cast<uint64_t>(pointer), Kind::kHostMemory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FAKE(cuMemGetInfo_v2)(size_t* free_bytes, size_t* total) {
  *total = kTotalBytes;
  *free_bytes = kTotalBytes - handles.used_bytes();
  return CUDA_SUCCESS;
}
FAKE(cuMemsetD8_v2)(CUdeviceptr, unsigned char, size_t) { return CUDA_SUCCESS; }
FAKE(cuMemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream) { return CUDA_SUCCESS; }
FAKE(cuDeviceGetDefaultMemPool)(CUmemoryPool*, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }

FAKE(cuEventCreate)(CUevent* out, unsigned) {
  COUNT_CALL(cuEventCreate);
  return make_object(out, Kind::kEvent);
}
FAKE(cuEventDestroy_v2)(CUevent event) {
  COUNT_CALL(cuEventDestroy_v2);
  return end_object(event, Kind::kEvent);
}
FAKE(cuEventRecord)(CUevent, CUstream) { return CUDA_SUCCESS; }
FAKE(cuEventQuery)(CUevent) { return CUDA_SUCCESS; }
FAKE(cuEventSynchronize)(CUevent) { return CUDA_SUCCESS; }
FAKE(cuStreamCreate)(CUstream* out, unsigned) {
  COUNT_CALL(cuStreamCreate);
  return make_object(out, Kind::kStream);
}
FAKE(cuStreamCreateWithPriority)(CUstream* out, unsigned flags, int) { return sim_cuStreamCreate(out, flags); }
FAKE(cuStreamDestroy_v2)(CUstream stream) {
  COUNT_CALL(cuStreamDestroy_v2);
  return end_object(stream, Kind::kStream);
}
FAKE(cuStreamSynchronize)(CUstream) { return CUDA_SUCCESS; }
FAKE(cuStreamQuery)(CUstream) { return CUDA_SUCCESS; }
FAKE(cuStreamIsCapturing)(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
FAKE(cuStreamGetCaptureInfo_v2)
(CUstream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
FAKE(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
