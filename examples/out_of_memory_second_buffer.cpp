// Question: "when the GPU is full my service falls back to the CPU, and after a while it is out of memory for ever"
//
// load_model needs three buffers. When the second allocation fails it returns without freeing the first buffer. In a
// test no allocation fails, so there is no leak. `culprit sweep` makes each allocation fail once, and finds the leak.
//
// True report: nothing as long as every allocation succeeds.
//     culprit sweep -- out_of_memory_second_buffer
// finds one leak of 64 MiB, allocated in load_model, when the workspace's cudaMalloc fails.
//
// run:
// expect: clean
#include "examples/check.h"

struct Model {
  float* weights = nullptr;
  float* workspace = nullptr;
  float* staging = nullptr;  // pinned host memory
};

EXAMPLE_NOINLINE bool load_model(Model* model) {
  if (cudaMalloc(&model->weights, size_t{64} << 20) != cudaSuccess) return false;
  if (cudaMalloc(&model->workspace, size_t{16} << 20) != cudaSuccess) return false;  // the weights are forgotten
  if (cudaMallocHost(&model->staging, size_t{1} << 20) != cudaSuccess) {
    cudaFree(model->workspace);
    cudaFree(model->weights);
    return false;
  }
  return true;
}

EXAMPLE_NOINLINE void unload_model(Model* model) {
  check(cudaFreeHost(model->staging), "free the staging buffer");
  check(cudaFree(model->workspace), "free the workspace");
  check(cudaFree(model->weights), "free the weights");
}

int main() {
  Model model;
  if (!load_model(&model)) {
    std::puts("no room on the GPU: on the CPU then");
    return 0;
  }
  std::puts("on the GPU");
  unload_model(&model);
  return 0;
}
