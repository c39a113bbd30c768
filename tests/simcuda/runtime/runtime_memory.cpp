// Device, managed, pinned and registered memory; stream-ordered memory.
#include "tests/simcuda/runtime/runtime.h"

using simcudart::address_of;
using simcudart::done;
using simcudart::failed;
using simcudart::legacy;
using simcudart::pointer_to;

namespace {

// Sets an out-parameter: to the pointer on success, unchanged on failure.
cudaError_t give(void** out, CUresult status, CUdeviceptr address) {
  if (status == CUDA_SUCCESS) *out = pointer_to(address);
  return done(status);
}

}  // namespace

RUNTIME_API(cudaMalloc)(void** out, std::size_t bytes) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  if (bytes == 0) {
    *out = nullptr;
    return cudaSuccess;
  }
  CUdeviceptr address = 0;
  CUresult status = legacy.cuMemAlloc(&address, bytes);
  return give(out, status, address);
}

RUNTIME_API(cudaFree)(void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  if (pointer == nullptr) return cudaSuccess;
  return done(legacy.cuMemFree(address_of(pointer)));
}

RUNTIME_API(cudaMallocPitch)(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr || pitch == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CUresult status = legacy.cuMemAllocPitch(&address, pitch, width, height, 4);
  return give(out, status, address);
}

RUNTIME_API(cudaMalloc3D)(cudaPitchedPtr* out, cudaExtent extent) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  CUresult status = legacy.cuMemAllocPitch(&address, &pitch, extent.width, extent.height * extent.depth, 4);
  if (status == CUDA_SUCCESS) *out = {pointer_to(address), pitch, extent.width, extent.height};
  return done(status);
}

RUNTIME_API(cudaMallocManaged)(void** out, std::size_t bytes, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CUresult status = legacy.cuMemAllocManaged(&address, bytes, flags);
  return give(out, status, address);
}

RUNTIME_API(cudaHostAlloc)(void** out, std::size_t bytes, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  if (bytes == 0) {
    *out = nullptr;
    return cudaSuccess;
  }
  return done(legacy.cuMemHostAlloc(out, bytes, flags));
}

RUNTIME_API(cudaMallocHost)(void** out, std::size_t bytes) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  if (bytes == 0) {
    *out = nullptr;
    return cudaSuccess;
  }
  return done(legacy.cuMemHostAlloc(out, bytes, 0));
}

RUNTIME_API(cudaFreeHost)(void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  if (pointer == nullptr) return cudaSuccess;
  return done(legacy.cuMemFreeHost(pointer));
}

RUNTIME_API(cudaHostRegister)(void* pointer, std::size_t bytes, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemHostRegister(pointer, bytes, flags));
}

RUNTIME_API(cudaHostUnregister)(void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemHostUnregister(pointer));
}

RUNTIME_API(cudaHostGetDevicePointer)(void** out, void* pointer, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CUresult status = legacy.cuMemHostGetDevicePointer(&address, pointer, flags);
  return give(out, status, address);
}

RUNTIME_API(cudaHostGetFlags)(unsigned* flags, void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemHostGetFlags(flags, pointer));
}

RUNTIME_API(cudaMemGetInfo)(std::size_t* free_bytes, std::size_t* total) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemGetInfo(free_bytes, total));
}

RUNTIME_API(cudaPointerGetAttributes)(cudaPointerAttributes* out, const void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  *out = {};
  unsigned type = 0;
  unsigned managed = 0;
  int device = 0;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                      CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &managed, &device, &device_pointer, &host_pointer};
  if (CUresult status = legacy.cuPointerGetAttributes(5, attributes, values, address_of(pointer))) return done(status);
  out->type = type == 0                    ? cudaMemoryTypeUnregistered
              : managed != 0               ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                           : cudaMemoryTypeDevice;
  out->device = type == 0 ? -2 : device;
  out->devicePointer = pointer_to(device_pointer);
  out->hostPointer = type == 0 ? const_cast<void*>(pointer) : host_pointer;
  return cudaSuccess;
}

RUNTIME_API(cudaMemAdvise)(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
  RUNTIME_NEEDS_CONTEXT();
  CUmemLocation where{static_cast<CUmemLocationType>(location.type), {location.id}};
  return done(legacy.cuMemAdvise(address_of(pointer), bytes, static_cast<CUmem_advise>(advice), where));
}

RUNTIME_STREAM_API(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz,
                   (const void* pointer, std::size_t bytes, cudaMemLocation location, unsigned flags,
                    cudaStream_t stream),
                   (pointer, bytes, location, flags, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  CUmemLocation where{static_cast<CUmemLocationType>(location.type), {location.id}};
  return done(driver.cuMemPrefetchAsync(address_of(pointer), bytes, where, flags, stream));
}

RUNTIME_STREAM_API(cudaMallocAsync, cudaMallocAsync_ptsz, (void** out, std::size_t bytes, cudaStream_t stream),
                   (out, bytes, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CUresult status = driver.cuMemAllocAsync(&address, bytes, stream);
  return give(out, status, address);
}

RUNTIME_STREAM_API(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz,
                   (void** out, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                   (out, bytes, pool, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CUresult status = driver.cuMemAllocFromPoolAsync(&address, bytes, pool, stream);
  return give(out, status, address);
}

RUNTIME_STREAM_API(cudaFreeAsync, cudaFreeAsync_ptsz, (void* pointer, cudaStream_t stream), (pointer, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  if (pointer == nullptr) return cudaSuccess;
  return done(driver.cuMemFreeAsync(address_of(pointer), stream));
}

RUNTIME_API(cudaMemPoolCreate)(cudaMemPool_t* out, const cudaMemPoolProps* properties) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolCreate(out, simcudart::as<const CUmemPoolProps*>(properties)));
}

RUNTIME_API(cudaMemPoolDestroy)(cudaMemPool_t pool) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolDestroy(pool));
}

RUNTIME_API(cudaMemPoolTrimTo)(cudaMemPool_t pool, std::size_t keep) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolTrimTo(pool, keep));
}

RUNTIME_API(cudaMemPoolSetAttribute)(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value));
}

RUNTIME_API(cudaMemPoolGetAttribute)(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value));
}

RUNTIME_API(cudaMemPoolSetAccess)(cudaMemPool_t pool, const cudaMemAccessDesc* accesses, std::size_t count) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolSetAccess(pool, simcudart::as<const CUmemAccessDesc*>(accesses), count));
}

RUNTIME_API(cudaMemPoolGetAccess)(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolGetAccess(simcudart::as<CUmemAccess_flags*>(flags), pool,
                                        simcudart::as<CUmemLocation*>(location)));
}

RUNTIME_API(cudaMemPoolExportToShareableHandle)
(void* out, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolExportToShareableHandle(out, pool, static_cast<CUmemAllocationHandleType>(type), flags));
}

RUNTIME_API(cudaMemPoolImportFromShareableHandle)
(cudaMemPool_t* out, void* handle, cudaMemAllocationHandleType type, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(
      legacy.cuMemPoolImportFromShareableHandle(out, handle, static_cast<CUmemAllocationHandleType>(type), flags));
}

RUNTIME_API(cudaMemPoolExportPointer)(cudaMemPoolPtrExportData* out, void* pointer) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemPoolExportPointer(simcudart::as<CUmemPoolPtrExportData*>(out), address_of(pointer)));
}

RUNTIME_API(cudaMemPoolImportPointer)(void** out, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  RUNTIME_NEEDS_CONTEXT();
  if (out == nullptr) return failed(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CUresult status = legacy.cuMemPoolImportPointer(&address, pool, simcudart::as<CUmemPoolPtrExportData*>(data));
  return give(out, status, address);
}

RUNTIME_API(cudaDeviceGetDefaultMemPool)(cudaMemPool_t* out, int device) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDeviceGetDefaultMemPool(out, device));
}

RUNTIME_API(cudaDeviceGetMemPool)(cudaMemPool_t* out, int device) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDeviceGetMemPool(out, device));
}

RUNTIME_API(cudaDeviceSetMemPool)(int device, cudaMemPool_t pool) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuDeviceSetMemPool(device, pool));
}

RUNTIME_API(cudaMemGetDefaultMemPool)(cudaMemPool_t* out, cudaMemLocation* location, cudaMemAllocationType type) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuMemGetDefaultMemPool(out, simcudart::as<CUmemLocation*>(location),
                                            static_cast<CUmemAllocationType>(type)));
}
