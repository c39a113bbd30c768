// Devices, errors, and the way to the driver's own entry points.
#include <cstdio>
#include <cstring>

#include "tests/simcuda/runtime/runtime.h"

using simcudart::done;
using simcudart::failed;
using simcudart::legacy;

namespace {

int attribute(CUdevice_attribute which, int device) {
  int value = 0;
  legacy.cuDeviceGetAttribute(&value, which, device);
  return value;
}

// The primary context of a device; the selected device stays.
cudaError_t context_of(int device, CUcontext* context) {
  const int here = simcudart::selected_device();
  if (cudaError_t error = simcudart::select_device(device)) return error;
  legacy.cuCtxGetCurrent(context);
  simcudart::select_device(here);
  return cudaSuccess;
}

cudaError_t entry_point(const char* symbol, void** out, int version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* result) {
  RUNTIME_NEEDS_DRIVER();
  if (symbol == nullptr || out == nullptr) return failed(cudaErrorInvalidValue);
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  CUresult status = legacy.cuGetProcAddress(symbol, out, version, flags, &found);
  if (result != nullptr) *result = static_cast<cudaDriverEntryPointQueryResult>(found);
  // With `result`, the caller asked for the details, and a name unknown to the driver is not an error of the call.
  if (status == CUDA_ERROR_NOT_FOUND && result != nullptr) return cudaSuccess;
  return done(status);
}

}  // namespace

RUNTIME_API(cudaGetDeviceCount)(int* count) {
  if (count == nullptr) return failed(cudaErrorInvalidValue);
  *count = 0;
  RUNTIME_NEEDS_DRIVER();
  return done(legacy.cuDeviceGetCount(count));
}

RUNTIME_API(cudaSetDevice)(int device) {
  if (cudaError_t error = simcudart::select_device(device)) return failed(error);
  return cudaSuccess;
}

RUNTIME_API(cudaInitDevice)(int device, unsigned, unsigned) {
  int here = simcudart::selected_device();
  if (cudaError_t error = simcudart::select_device(device)) return failed(error);
  simcudart::select_device(here);
  return cudaSuccess;
}

RUNTIME_API(cudaGetDevice)(int* device) {
  RUNTIME_NEEDS_DRIVER();
  if (device == nullptr) return failed(cudaErrorInvalidValue);
  *device = simcudart::selected_device();
  return cudaSuccess;
}

RUNTIME_API(cudaDeviceReset)(void) {
  if (cudaError_t error = simcudart::reset_device()) return failed(error);
  return cudaSuccess;
}

RUNTIME_API(cudaDeviceSynchronize)(void) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuCtxSynchronize(nullptr));
}

RUNTIME_API(cudaDeviceSetLimit)(cudaLimit limit, std::size_t value) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}

RUNTIME_API(cudaDeviceGetLimit)(std::size_t* value, cudaLimit limit) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuCtxGetLimit(value, static_cast<CUlimit>(limit)));
}

RUNTIME_API(cudaDeviceSetCacheConfig)(cudaFuncCache) {
  RUNTIME_NEEDS_CONTEXT();
  return cudaSuccess;
}

RUNTIME_API(cudaDeviceGetStreamPriorityRange)(int* least, int* greatest) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuCtxGetStreamPriorityRange(least, greatest));
}

RUNTIME_API(cudaSetDeviceFlags)(unsigned flags) {
  RUNTIME_NEEDS_DRIVER();
  return done(legacy.cuDevicePrimaryCtxSetFlags(simcudart::selected_device(), flags));
}

RUNTIME_API(cudaGetDeviceFlags)(unsigned* flags) {
  RUNTIME_NEEDS_DRIVER();
  int active = 0;
  return done(legacy.cuDevicePrimaryCtxGetState(simcudart::selected_device(), flags, &active));
}

RUNTIME_API(cudaDeviceGetAttribute)(int* value, cudaDeviceAttr which, int device) {
  RUNTIME_NEEDS_DRIVER();
  return done(legacy.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(which), device));
}

RUNTIME_API(cudaGetDeviceProperties)(cudaDeviceProp* out, int device) {
  RUNTIME_NEEDS_DRIVER();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  memset(out, 0, sizeof(*out));
  if (CUresult status = legacy.cuDeviceGetName(out->name, sizeof(out->name), device)) return done(status);
  legacy.cuDeviceGetUuid(&out->uuid, device);
  legacy.cuDeviceTotalMem(&out->totalGlobalMem, device);
  auto value = [device](CUdevice_attribute which) { return attribute(which, device); };
  out->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  out->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  out->warpSize = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  out->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; ++i) {
    out->maxThreadsDim[i] = value(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
    out->maxGridSize[i] = value(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
  }
  out->totalConstMem = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  out->major = value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  out->minor = value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  out->textureAlignment = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  out->texturePitchAlignment = value(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  out->multiProcessorCount = value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  out->canMapHostMemory = value(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  out->concurrentKernels = value(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  out->ECCEnabled = value(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  out->pciBusID = value(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  out->asyncEngineCount = value(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  out->unifiedAddressing = value(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  out->memoryBusWidth = value(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  out->l2CacheSize = value(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  out->maxThreadsPerMultiProcessor = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  out->streamPrioritiesSupported = value(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  out->sharedMemPerMultiprocessor = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  out->regsPerMultiprocessor = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  out->managedMemory = value(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  out->concurrentManagedAccess = value(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  out->computePreemptionSupported = value(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  out->cooperativeLaunch = value(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  out->sharedMemPerBlockOptin = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  out->maxBlocksPerMultiProcessor = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  out->memoryPoolsSupported = value(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  out->memoryPoolSupportedHandleTypes = value(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  out->hostRegisterSupported = value(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  return cudaSuccess;
}

RUNTIME_API(cudaDeviceGetPCIBusId)(char* text, int length, int device) {
  RUNTIME_NEEDS_DRIVER();
  return done(legacy.cuDeviceGetPCIBusId(text, length, device));
}

RUNTIME_API(cudaDeviceGetByPCIBusId)(int* device, const char* text) {
  RUNTIME_NEEDS_DRIVER();
  return done(legacy.cuDeviceGetByPCIBusId(device, text));
}

RUNTIME_API(cudaDeviceCanAccessPeer)(int* can, int device, int peer) {
  RUNTIME_NEEDS_DRIVER();
  return done(legacy.cuDeviceCanAccessPeer(can, device, peer));
}

RUNTIME_API(cudaDeviceGetP2PAttribute)(int* value, cudaDeviceP2PAttr which, int device, int peer) {
  RUNTIME_NEEDS_DRIVER();
  return done(legacy.cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(which), device, peer));
}

RUNTIME_API(cudaDeviceEnablePeerAccess)(int peer, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  CUcontext context = nullptr;
  if (cudaError_t error = context_of(peer, &context)) return failed(error);
  return done(legacy.cuCtxEnablePeerAccess(context, flags));
}

RUNTIME_API(cudaDeviceDisablePeerAccess)(int peer) {
  RUNTIME_NEEDS_CONTEXT();
  CUcontext context = nullptr;
  if (cudaError_t error = context_of(peer, &context)) return failed(error);
  return done(legacy.cuCtxDisablePeerAccess(context));
}

RUNTIME_API(cudaDriverGetVersion)(int* version) {
  if (version == nullptr) return failed(cudaErrorInvalidValue);
  *version = 0;  // as the real runtime does without a driver
  if (simcudart::load_driver() != cudaSuccess && legacy.cuDriverGetVersion == nullptr) return cudaSuccess;
  return done(legacy.cuDriverGetVersion(version));
}

RUNTIME_EXPORT const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  const char* text = nullptr;
  // The names differ only in their style: "CUDA_ERROR_OUT_OF_MEMORY" is "cudaErrorMemoryAllocation" in the runtime.
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError:
      return "cudaErrorInitializationError";
    case cudaErrorCudartUnloading:
      return "cudaErrorCudartUnloading";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorDeviceUninitialized:
      return "cudaErrorDeviceUninitialized";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorContextIsDestroyed:
      return "cudaErrorContextIsDestroyed";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    default:
      break;
  }
  if (simcudart::load_driver() == cudaSuccess) legacy.cuGetErrorName(static_cast<CUresult>(error), &text);
  return text == nullptr ? "unrecognized error code" : text;
}

RUNTIME_EXPORT const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  if (error == cudaErrorInsufficientDriver) return "CUDA driver version is insufficient for CUDA runtime version";
  if (error == cudaErrorInvalidDeviceFunction) return "invalid device function";
  if (error == cudaErrorInvalidSymbol) return "invalid device symbol";
  simcudart::load_driver();
  if (legacy.cuGetErrorString != nullptr) legacy.cuGetErrorString(static_cast<CUresult>(error), &text);
  return text == nullptr ? "unrecognized error code" : text;
}

RUNTIME_STREAM_API(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz,
                   (const char* symbol, void** out, unsigned long long flags, cudaDriverEntryPointQueryResult* result),
                   (symbol, out, flags, result)) {
  unsigned long long kind = flags != 0                          ? flags
                            : &driver == &simcudart::per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                                : 0;
  return entry_point(symbol, out, 13000, kind, result);
}

RUNTIME_STREAM_API(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz,
                   (const char* symbol, void** out, unsigned version, unsigned long long flags,
                    cudaDriverEntryPointQueryResult* result),
                   (symbol, out, version, flags, result)) {
  unsigned long long kind = flags != 0                          ? flags
                            : &driver == &simcudart::per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                                : 0;
  return entry_point(symbol, out, static_cast<int>(version), kind, result);
}

RUNTIME_API(cudaProfilerStart)(void) { return cudaSuccess; }
RUNTIME_API(cudaProfilerStop)(void) { return cudaSuccess; }
