// Question: "memory stays taken after a thread ends", with the program that people paste: each thread selects the
// device, allocates, works, frees; after the join nvidia-smi still shows a few hundred MB.
//
// Popular answer: "each thread has its own context, which leaks". True verdict: CLEAN. There is one primary context
// for all threads; what nvidia-smi shows is that context.
//
// run:
// expect: clean
#include <cuda_runtime.h>

#include <iostream>
#include <thread>
#include <vector>

void worker(int id) {
  cudaSetDevice(0);
  float* d_buf;
  size_t size = 50 * 1024 * 1024;
  if (cudaMalloc(&d_buf, size) != cudaSuccess) {
    std::cerr << "Thread " << id << ": cudaMalloc failed\n";
    return;
  }
  cudaMemset(d_buf, 0, size);
  cudaDeviceSynchronize();
  cudaFree(d_buf);
}

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back(worker, i);
  }
  for (auto& t : threads) {
    t.join();
  }
  size_t free_mem, total_mem;
  cudaMemGetInfo(&free_mem, &total_mem);
  std::cout << "Used after threads: " << (total_mem - free_mem) / (1024 * 1024) << " MB" << std::endl;
  return 0;
}
