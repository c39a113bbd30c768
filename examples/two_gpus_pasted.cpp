// Question: "with two GPUs, do I have to select the right device before cudaFree?", with the program that people
// paste: it frees both buffers while the second device is current.
//
// Popular answer: "the first GPU's memory leaks". True verdict: CLEAN. Addresses are unique in a process, and
// cudaFree determines the device from the address.
//
// simulator: SIMCUDA_DEVICES=2
// run:
// expect: clean
#include <cuda_runtime.h>
#include <stdio.h>

int main() {
  int n = 0;
  cudaGetDeviceCount(&n);
  if (n < 2) {
    printf("needs 2 GPUs, found %d\n", n);
    return 77;
  }
  float *d0, *d1;
  size_t size = 64 * 1024 * 1024;
  cudaSetDevice(0);
  cudaMalloc((void**)&d0, size);
  cudaSetDevice(1);
  cudaMalloc((void**)&d1, size);
  cudaMemcpy(d1, d0, size, cudaMemcpyDefault);
  cudaDeviceSynchronize();
  cudaFree(d0);
  cudaFree(d1);
  return 0;
}
