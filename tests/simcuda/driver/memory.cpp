// Device, managed, pinned and registered memory.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/capture.h"
#include "tests/simcuda/driver/own_memory.h"
#include "tests/simcuda/driver/pools.h"

namespace simcuda {
namespace {

constexpr std::size_t kPitchUnit = 512;

CUresult allocate_device(Call& call, CUdeviceptr* out, std::size_t bytes) {
  if (CUresult status = check_capture_safe(call.state(), thread_state().capture_mode)) return status;
  const std::size_t charged = block_bytes(call.state(), call.device(), bytes, false);
  Allocation* allocation =
      add_allocation(call.state(), call.device(), MemoryKind::kDevice, bytes, 512, charged, &call.context());
  if (allocation == nullptr) {
    block_bytes(call.state(), call.device(), bytes, true);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = allocation->address;
  return CUDA_SUCCESS;
}

Allocation& add_host(Call& call, MemoryKind kind, void* pointer, std::size_t bytes, unsigned flags) {
  Allocation& allocation = call.state().host[reinterpret_cast<std::uint64_t>(pointer)];
  allocation.address = reinterpret_cast<std::uint64_t>(pointer);
  allocation.bytes = bytes;
  allocation.id = call.state().next_id++;
  allocation.kind = kind;
  allocation.device = call.context().device;
  allocation.flags = flags;
  allocation.context = &call.context();
  return allocation;
}

CUresult allocate_host(Call& call, void** out, std::size_t bytes, unsigned flags) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult status = check_capture_safe(call.state(), thread_state().capture_mode)) return status;
  // As with NVIDIA's driver, a fork child does not have it, and /proc/*/pagemap does not show where it has data.
  void* pointer = map_shared(round_up(bytes, kPageBytes));
  if (pointer == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation& host = add_host(call, MemoryKind::kHost, pointer, bytes, flags);
  if (call.state().own_memory.on) {  // its pages are mapped on the device
    host.charged = bytes / 512;
    call.device().used += host.charged;
  }
  *out = pointer;
  return CUDA_SUCCESS;
}

Allocation* find_host(Call& call, const void* pointer) {
  auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (is_device_address(call.state(), address)) return nullptr;
  return find_containing(call.state(), -1, address);
}

}  // namespace
}  // namespace simcuda

using simcuda::Allocation;
using simcuda::Call;
using simcuda::Device;
using simcuda::MemoryKind;

SIM(cuMemAlloc_v2)(CUdeviceptr* out, std::size_t bytes) {
  SIM_CALL(kContext);
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::allocate_device(call, out, bytes);
}

SIM(cuMemAllocPitch_v2)(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element) {
  SIM_CALL(kContext);
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  *pitch = simcuda::round_up(width, simcuda::kPitchUnit);
  return simcuda::allocate_device(call, out, *pitch * height);
}

SIM(cuMemFree_v2)(CUdeviceptr address) {
  SIM_CALL(kContext);
  if (address == 0) return CUDA_SUCCESS;
  if (CUresult status = simcuda::check_capture_safe(call.state(), simcuda::thread_state().capture_mode)) return status;
  Allocation* allocation = simcuda::find_allocation(call.state(), call.context().device, address);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (allocation->kind) {
    case MemoryKind::kDevice:
    case MemoryKind::kManaged:
    case MemoryKind::kExternalBuffer:
      break;
    case MemoryKind::kPool:
    case MemoryKind::kPoolImport:
    case MemoryKind::kGraph: {
      int device = allocation->device;
      simcuda::release_allocation(call.state(), *allocation);
      simcuda::synchronize_pools(call.state(), device);  // cuMemFree waits for the device
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  simcuda::release_allocation(call.state(), *allocation);
  return CUDA_SUCCESS;
}

SIM(cuMemAllocManaged)(CUdeviceptr* out, std::size_t bytes, unsigned flags) {
  SIM_CALL(kContext);
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult status = simcuda::check_capture_safe(call.state(), simcuda::thread_state().capture_mode)) return status;
  // Managed memory migrates: it may be larger than a device, and takes no device memory until a kernel touches it.
  std::uint64_t address = call.state().managed_space->allocate(bytes, 512);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation& allocation = call.state().managed[address];
  allocation.address = allocation.range = address;
  allocation.bytes = allocation.reserved = bytes;
  allocation.id = call.state().next_id++;
  allocation.kind = MemoryKind::kManaged;
  allocation.device = call.context().device;
  allocation.flags = flags;
  allocation.context = &call.context();
  *out = address;
  return CUDA_SUCCESS;
}

SIM(cuMemHostAlloc)(void** out, std::size_t bytes, unsigned flags) {
  SIM_CALL(kContext);
  return simcuda::allocate_host(call, out, bytes, flags);
}

SIM(cuMemAllocHost_v2)(void** out, std::size_t bytes) {
  SIM_CALL(kContext);
  return simcuda::allocate_host(call, out, bytes, 0);
}

SIM(cuMemAllocHost)(void** out, unsigned bytes) { return sim_cuMemAllocHost_v2(out, bytes); }

SIM(cuMemFreeHost)(void* pointer) {
  SIM_CALL(kContext);
  auto found = call.state().host.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == call.state().host.end() || found->second.kind != MemoryKind::kHost) return CUDA_ERROR_INVALID_VALUE;
  simcuda::release_allocation(call.state(), found->second);
  return CUDA_SUCCESS;
}

SIM(cuMemHostRegister_v2)(void* pointer, std::size_t bytes, unsigned flags) {
  SIM_CALL(kContext);
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  auto begin = reinterpret_cast<std::uint64_t>(pointer);
  if (simcuda::is_device_address(call.state(), begin)) return CUDA_ERROR_INVALID_VALUE;
  auto next = call.state().host.lower_bound(begin);
  bool overlaps =
      simcuda::find_host(call, pointer) != nullptr || (next != call.state().host.end() && next->first < begin + bytes);
  if (overlaps) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  simcuda::add_host(call, MemoryKind::kRegisteredHost, pointer, bytes, flags);
  return CUDA_SUCCESS;
}

SIM(cuMemHostUnregister)(void* pointer) {
  SIM_CALL(kContext);
  auto found = call.state().host.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == call.state().host.end() || found->second.kind != MemoryKind::kRegisteredHost) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  simcuda::release_allocation(call.state(), found->second);
  return CUDA_SUCCESS;
}

SIM(cuMemHostGetDevicePointer_v2)(CUdeviceptr* out, void* pointer, unsigned) {
  SIM_CALL(kContext);
  if (out == nullptr || simcuda::find_host(call, pointer) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(pointer);  // unified addressing
  return CUDA_SUCCESS;
}

SIM(cuMemHostGetFlags)(unsigned* flags, void* pointer) {
  SIM_CALL(kContext);
  Allocation* allocation = simcuda::find_host(call, pointer);
  if (flags == nullptr || allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

SIM(cuMemGetInfo_v2)(std::size_t* free_bytes, std::size_t* total) {
  SIM_CALL(kContext);
  if (call.state().own_memory.info_us != 0) usleep(call.state().own_memory.info_us);
  if (free_bytes != nullptr) *free_bytes = call.device().available();
  if (total != nullptr) *total = call.device().total;
  return CUDA_SUCCESS;
}

SIM(cuMemGetAddressRange_v2)(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  SIM_CALL(kContext);
  Allocation* allocation = simcuda::find_containing(call.state(), call.context().device, address);
  if (allocation == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = allocation->address;
  if (bytes != nullptr) *bytes = allocation->bytes;
  return CUDA_SUCCESS;
}
