// Like PyTorch's libc10_cuda.so: allocates through its caching allocator, and directly.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

namespace c10::cuda {

SUBJECT_FUNCTION void* raw_device_malloc(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

namespace CUDACachingAllocator::Native {

struct DeviceCachingAllocator {
  SUBJECT_FUNCTION void* alloc_block(size_t bytes);
  SUBJECT_FUNCTION void* malloc(size_t bytes);
  SUBJECT_FUNCTION CUdeviceptr map(CUdeviceptr address, size_t bytes);
};

void* DeviceCachingAllocator::alloc_block(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

void* DeviceCachingAllocator::malloc(size_t bytes) { return alloc_block(bytes); }

// More of an expandable segment, which begins with address 0.
CUdeviceptr DeviceCachingAllocator::map(CUdeviceptr address, size_t bytes) {
  constexpr size_t kReserved = size_t{1} << 32;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  if (address == 0) CHECKED(cuMemAddressReserve(&address, kReserved, 0, 0, 0));
  CHECKED(cuMemCreate(&handle, bytes, &properties, 0));
  CHECKED(cuMemMap(address, bytes, 0, handle, 0));
  return address;
}

}  // namespace CUDACachingAllocator::Native
}  // namespace c10::cuda

extern "C" __attribute__((visibility("default"))) void plugin_work() {
  c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator allocator;
  allocator.malloc(11001);
  c10::cuda::raw_device_malloc(20001);
}

// Used by the stand-in for PyTorch (python_fakes/torch).
extern "C" __attribute__((visibility("default"))) void* take_segment(std::size_t bytes) {
  c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator allocator;
  return allocator.malloc(bytes);
}

extern "C" __attribute__((visibility("default"))) CUdeviceptr expand_segment(CUdeviceptr address, std::size_t bytes) {
  c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator allocator;
  return allocator.map(address, bytes);
}
