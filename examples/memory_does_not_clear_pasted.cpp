// Question: "GPU memory does not clear after cudaFree", with the program that people paste: it prints cudaMemGetInfo
// around a cudaMalloc and a cudaFree of 1 GiB, and the last line is not the first.
//
// Popular answer: "cudaFree is asynchronous, your memory leaks until cudaDeviceReset". True verdict: CLEAN. The
// difference is the context, which the first call created.
//
// run:
// expect: clean
#include <cuda_runtime.h>

#include <iostream>

void print_mem(const char* msg) {
  size_t free_mem, total_mem;
  cudaMemGetInfo(&free_mem, &total_mem);
  std::cout << msg << ": " << (total_mem - free_mem) / (1024 * 1024) << " MB used" << std::endl;
}

int main() {
  print_mem("Start");
  void* ptr;
  size_t size = 1024UL * 1024UL * 1024UL;
  cudaError_t result = cudaMalloc(&ptr, size);
  if (result != cudaSuccess) {
    std::cerr << "cudaMalloc failed: " << cudaGetErrorString(result) << std::endl;
    return 1;
  }
  cudaMemset(ptr, 0, size);
  print_mem("After cudaMalloc");
  cudaFree(ptr);
  print_mem("After cudaFree");
  cudaDeviceSynchronize();
  print_mem("After cudaDeviceSynchronize");
  cudaDeviceReset();
  return 0;
}
