// A global whose destructor frees after main, when the driver may already be shutting down: neither a leak nor an
// error. The exit code is main's in any case.
#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

struct Cache {
  void* device = nullptr;
  void* pinned = nullptr;
  cudaArray_t array = nullptr;
  ~Cache() {
    cudaFree(device);
    cudaFreeHost(pinned);
    cudaFreeArray(array);
  }
};

static Cache cache;

SUBJECT_FUNCTION void fill_cache() {
  CHECKED(cudaMalloc(&cache.device, 11001));
  CHECKED(cudaMallocHost(&cache.pinned, 20001));
  const cudaChannelFormatDesc bytes = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
  CHECKED(cudaMallocArray(&cache.array, &bytes, 256, 16));
}

int main() {
  fill_cache();
  return 0;
}
