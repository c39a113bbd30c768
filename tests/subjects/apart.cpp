// A library that allocates 11001 bytes and frees nothing. Built three times: linked to the driver, linked to the
// runtime (APART_RUNTIME), and with addresses that it asks for by name and keeps in its data (APART_BY_NAME).
#include <cuda.h>
#ifdef APART_RUNTIME
#include <cuda_runtime_api.h>
#endif
#ifdef APART_BY_NAME
#include <dlfcn.h>
#endif

#ifdef APART_BY_NAME
static CUresult (*init)(unsigned);
static CUresult (*retain)(CUcontext*, CUdevice);
static CUresult (*set_current)(CUcontext);
static CUresult (*allocate)(CUdeviceptr*, std::size_t);

template <typename Function>
static bool find(void* driver, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(driver, name));
  return *function != nullptr;
}
#endif

extern "C" __attribute__((visibility("default"))) int apart_work() {
#ifdef APART_RUNTIME
  void* pointer = nullptr;
  return cudaMalloc(&pointer, 11001);
#else
  CUcontext context = nullptr;
  CUdeviceptr pointer = 0;
#ifdef APART_BY_NAME
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr || !find(driver, "cuInit", &init) || !find(driver, "cuDevicePrimaryCtxRetain", &retain) ||
      !find(driver, "cuCtxSetCurrent", &set_current) || !find(driver, "cuMemAlloc_v2", &allocate))
    return 1000;
#else
  auto* init = cuInit;
  auto* retain = cuDevicePrimaryCtxRetain;
  auto* set_current = cuCtxSetCurrent;
  auto* allocate = cuMemAlloc;
#endif
  if (const int status = init(0)) return status;
  if (const int status = retain(&context, 0)) return status;
  if (const int status = set_current(context)) return status;
  return allocate(&pointer, 11001);
#endif
}
