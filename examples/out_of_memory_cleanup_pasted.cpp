// Question: "out of memory with no process. I clean up with cudaFree(0) and cudaDeviceReset, is that right?", with
// the program that people paste.
//
// Popular answer: "cudaFree(nullptr) frees what is left over". True verdict: cudaFree(nullptr) frees NOTHING, and
// returns no error. cudaDeviceReset (--reset) ends the memory together with the context: 512 MiB that the program never
// freed.
//
// run:
// expect: leak bytes=536870912 count=1 function=main api=cudaMalloc cause=never-freed
// run: --reset
// expect: leak bytes=536870912 count=1 function=main api=cudaMalloc cause=context-teardown
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  float* d_A = NULL;
  size_t size = 512 * 1024 * 1024;
  cudaError_t err = cudaMalloc((void**)&d_A, size);  // leak-here
  if (err != cudaSuccess) {
    fprintf(stderr, "Failed to allocate device memory (error code %s)!\n", cudaGetErrorString(err));
    return 1;
  }
  err = cudaMemset(d_A, 0, size);
  if (err != cudaSuccess) printf("memset failed\n");

  // "Clean up"
  cudaFree(nullptr);
  if (argc > 1 && strcmp(argv[1], "--reset") == 0) cudaDeviceReset();
  return 0;
}
