// As PyTorch's libc10_cuda.so: memory through its caching allocator, and past it.
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
};

void* DeviceCachingAllocator::alloc_block(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

void* DeviceCachingAllocator::malloc(size_t bytes) { return alloc_block(bytes); }

}  // namespace CUDACachingAllocator::Native
}  // namespace c10::cuda

extern "C" __attribute__((visibility("default"))) void plugin_work() {
  c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator allocator;
  allocator.malloc(11001);
  c10::cuda::raw_device_malloc(20001);
}

// For the stand-in for PyTorch (python_fakes/torch).
extern "C" __attribute__((visibility("default"))) void* take_segment(std::size_t bytes) {
  c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator allocator;
  return allocator.malloc(bytes);
}
