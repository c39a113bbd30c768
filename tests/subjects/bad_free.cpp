// One wrong free, named by the argument. The driver refuses it; the memory is freed properly afterwards.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void* allocate_device() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION void* allocate_pinned() {
  void* pointer = nullptr;
  CHECKED(cudaHostAlloc(&pointer, 20001, 0));
  return pointer;
}

SUBJECT_FUNCTION void free_first(void* pointer) { CHECKED(cudaFree(pointer)); }

SUBJECT_FUNCTION void free_badly(void* pointer) {
  if (cudaFree(pointer) == cudaSuccess) exit(3);
}

SUBJECT_FUNCTION void free_host_badly(void* pointer) {
  if (cudaFreeHost(pointer) == cudaSuccess) exit(3);
}

int main(int, char** argv) {
  void* device = allocate_device();
  void* pinned = allocate_pinned();
  if (std::strcmp(argv[1], "double") == 0) {
    free_first(device);
    free_badly(device);
    device = nullptr;
  }
  if (std::strcmp(argv[1], "unknown") == 0) free_badly(reinterpret_cast<void*>(0x123456789000));
  if (std::strcmp(argv[1], "interior") == 0) free_badly(static_cast<char*>(device) + 512);
  if (std::strcmp(argv[1], "pinned-as-device") == 0) free_badly(pinned);
  if (std::strcmp(argv[1], "device-as-pinned") == 0) free_host_badly(device);
  CHECKED(cudaFree(device));
  CHECKED(cudaFreeHost(pinned));
  return 0;
}
