// Question: "out of memory with no process. I throw when cudaMalloc fails: does the exception leak?", with the
// program that people paste.
//
// Popular answer: "yes, the exception skips cudaFree". True verdict: CLEAN. The exception is thrown only when
// cudaMalloc failed, and a failed cudaMalloc allocates nothing. (`--too-much` requests 1 PiB, to take that path on
// any GPU.)
//
// run:
// expect: clean
// run: --too-much
// expect: clean
#include <cuda_runtime.h>

#include <iostream>
#include <stdexcept>
#include <string>

void process(size_t size) {
  float* d_data = nullptr;
  cudaError_t err = cudaMalloc(&d_data, size);
  if (err != cudaSuccess) {
    throw std::runtime_error(std::string("cudaMalloc failed: ") + cudaGetErrorString(err));
  }
  cudaMemset(d_data, 0, size);
  cudaFree(d_data);
}

int main(int argc, char** argv) {
  size_t size = argc > 1 && std::string(argv[1]) == "--too-much" ? size_t{1} << 50 : size_t{100} << 20;
  try {
    process(size);
    std::cout << "done" << std::endl;
  } catch (const std::exception& e) {
    std::cerr << "Exception: " << e.what() << std::endl;
  }
  return 0;
}
