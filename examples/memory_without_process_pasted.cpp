// Question: "nvidia-smi shows used GPU memory but no process that uses it", with the program that people paste:
// allocate, check each error, copy, free.
//
// Popular answer: "your program leaks, call cudaDeviceReset". True verdict: CLEAN. Both allocations are freed, on
// every path.
//
// run:
// expect: clean
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

int main() {
  const int N = 1 << 20;
  int *d_data, *m_data;
  int* h_data = (int*)malloc(N * sizeof(int));
  for (int i = 0; i < N; i++) h_data[i] = i;

  cudaError_t err = cudaMalloc((void**)&d_data, N * sizeof(int));
  if (err != cudaSuccess) {
    printf("cudaMalloc failed: %s\n", cudaGetErrorString(err));
    return -1;
  }
  err = cudaMallocManaged((void**)&m_data, N * sizeof(int));
  if (err != cudaSuccess) {
    printf("cudaMallocManaged failed: %s\n", cudaGetErrorString(err));
    cudaFree(d_data);
    return -1;
  }
  err = cudaMemcpy(d_data, h_data, N * sizeof(int), cudaMemcpyHostToDevice);
  if (err != cudaSuccess) {
    printf("cudaMemcpy failed: %s\n", cudaGetErrorString(err));
    cudaFree(d_data);
    cudaFree(m_data);
    return -1;
  }
  cudaMemcpy(m_data, d_data, N * sizeof(int), cudaMemcpyDeviceToDevice);
  cudaDeviceSynchronize();
  printf("last: %d\n", m_data[N - 1]);

  cudaFree(d_data);
  cudaFree(m_data);
  free(h_data);
  return 0;
}
