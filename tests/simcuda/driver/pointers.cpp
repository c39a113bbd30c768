// Properties of pointers: attributes, advice, prefetching.
#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/pools.h"

namespace simcuda {
namespace {

bool is_host(const Allocation& allocation) {
  return allocation.kind == MemoryKind::kHost || allocation.kind == MemoryKind::kRegisteredHost ||
         (allocation.kind == MemoryKind::kPool && allocation.pool->on_host);
}

// Writes one attribute. `allocation` is nullptr for memory that CUDA does not know.
CUresult attribute_of(const Allocation* allocation, std::uint64_t address, CUpointer_attribute attribute, void* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool known = allocation != nullptr;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = known ? reinterpret_cast<CUcontext>(allocation->context) : nullptr;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) = !known ? 0 : is_host(*allocation) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = known ? address : 0;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: {
      bool from_host = known && (is_host(*allocation) || allocation->kind == MemoryKind::kManaged);
      *static_cast<void**>(out) = from_host ? reinterpret_cast<void*>(address) : nullptr;
      return from_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<int*>(out) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(out) = known ? allocation->id : 0;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(out) = known && allocation->kind == MemoryKind::kManaged;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = known ? allocation->device : -1;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(out) = known && allocation->kind == MemoryKind::kDevice;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = known ? allocation->address : 0;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(out) = known ? allocation->bytes : 0;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<int*>(out) = known;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(out) = known ? reinterpret_cast<CUmemoryPool>(allocation->pool) : nullptr;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(out) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<int*>(out) = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult check_managed(CUdeviceptr address, std::size_t bytes, CUstream) {
  SIM_CALL(kContext);
  Allocation* allocation = find_containing(call.state(), -1, address);
  if (allocation == nullptr || allocation->kind != MemoryKind::kManaged || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return address + bytes <= allocation->address + allocation->bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace simcuda

using simcuda::Allocation;

SIM(cuPointerGetAttribute)(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  SIM_CALL(kContext);
  const Allocation* allocation = simcuda::find_containing(call.state(), call.context().device, address);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::attribute_of(allocation, address, attribute, out);
}

// Unknown pointers are not an error here: their attributes read as zero.
SIM(cuPointerGetAttributes)(unsigned count, CUpointer_attribute* attributes, void** out, CUdeviceptr address) {
  SIM_CALL(kContext);
  if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Allocation* allocation = simcuda::find_containing(call.state(), call.context().device, address);
  for (unsigned i = 0; i < count; ++i) {
    if (simcuda::attribute_of(allocation, address, attributes[i], out[i]) == CUDA_ERROR_NOT_SUPPORTED)
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

SIM(cuPointerSetAttribute)(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  SIM_CALL(kContext);
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::find_containing(call.state(), call.context().device, address) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                                                           : CUDA_SUCCESS;
}

SIM(cuMemAdvise)(CUdeviceptr address, std::size_t bytes, CUmem_advise, CUdevice) {
  return simcuda::check_managed(address, bytes, nullptr);
}

SIM(cuMemAdvise_v2)(CUdeviceptr address, std::size_t bytes, CUmem_advise, CUmemLocation) {
  return simcuda::check_managed(address, bytes, nullptr);
}

SIM(cuMemPrefetchAsync)(CUdeviceptr address, std::size_t bytes, CUdevice, CUstream stream) {
  return simcuda::check_managed(address, bytes, stream);
}

SIM(cuMemPrefetchAsync_v2)(CUdeviceptr address, std::size_t bytes, CUmemLocation, unsigned, CUstream stream) {
  return simcuda::check_managed(address, bytes, stream);
}
