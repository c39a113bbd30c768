// graph_executables MODE: a program that instantiates graphs of 1,000 independent kernels and keeps or destroys the
// executables. tests/gpu/graph_executables.py runs it on a GPU, too.
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/support/empty_kernel.h"

namespace {

constexpr int kNodes = 1000;

CUfunction kernel;  // of the current context

void load_kernel() {
  CUmodule module = nullptr;
  CHECKED(cuModuleLoadData(&module, kEmptyKernel));
  CHECKED(cuModuleGetFunction(&kernel, module, "empty_kernel"));
}

SUBJECT_FUNCTION CUgraphExec instantiate(int nodes = kNodes) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = kernel;
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  CHECKED(cuGraphCreate(&graph, 0));
  for (int i = 0; i < nodes; ++i) {
    CUgraphNode node = nullptr;
    CHECKED(cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  }
  CHECKED(cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECKED(cuGraphLaunch(exec, nullptr));
  CHECKED(cuGraphDestroy(graph));
  return exec;
}

SUBJECT_FUNCTION std::vector<CUgraphExec> keep(int count) {
  std::vector<CUgraphExec> kept;
  for (int i = 0; i < count; ++i) kept.push_back(instantiate());
  return kept;
}

void destroy(const std::vector<CUgraphExec>& executables) {
  for (CUgraphExec exec : executables) CHECKED(cuGraphExecDestroy(exec));
}

// Takes all but 512 MiB of the device.
void fill() {
  std::size_t available = 0, total = 0;
  CUdeviceptr memory = 0;
  CHECKED(cuMemGetInfo(&available, &total));
  CHECKED(cuMemAlloc(&memory, available - (std::size_t{512} << 20)));
}

// A graph that allocates 2 GiB. Returns the first call that fails, all of which may need the memory.
SUBJECT_FUNCTION const char* allocate_in_graph() {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  parameters.bytesize = std::size_t{2} << 30;
  CHECKED(cuGraphCreate(&graph, 0));
  if (cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters) != CUDA_SUCCESS) return "cuGraphAddMemAllocNode";
  if (cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS) return "cuGraphInstantiateWithFlags";
  if (cuGraphUpload(exec, nullptr) != CUDA_SUCCESS) return "cuGraphUpload";
  return cuGraphLaunch(exec, nullptr) != CUDA_SUCCESS ? "cuGraphLaunch" : "none";
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  CUcontext context = nullptr;
  CHECKED(cuInit(0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  CUdeviceptr memory = 0;
  CHECKED(cuMemAlloc(&memory, 1 << 20));
  CHECKED(cuMemFree(memory));
  load_kernel();
  if (mode == "per request") {
    keep(40);
  } else if (mode == "destroyed at the end") {
    destroy(keep(40));
  } else if (mode == "one at a time") {
    for (int i = 0; i < 40; ++i) destroy({instantiate()});
  } else if (mode == "handful") {
    keep(8);
  } else if (mode == "at the start") {
    const auto begun = std::chrono::steady_clock::now();
    const std::vector<CUgraphExec> kept = keep(40);
    const auto taken = std::chrono::steady_clock::now() - begun;
    for (CUgraphExec exec : kept) CHECKED(cuGraphLaunch(exec, nullptr));
    std::this_thread::sleep_for(3 * taken + std::chrono::milliseconds(50));
  } else if (mode == "reused") {
    destroy(keep(3));
    keep(1);            // in the memory of those
    instantiate(2500);  // in the rest of it, and more
  } else if (mode == "no room") {
    fill();
    printf("%s\n", allocate_in_graph());
  } else if (mode == "second context") {
    CUcontext other = nullptr;
    CHECKED(cuCtxCreate(&other, nullptr, 0, 0));
    load_kernel();
    keep(4);
    CHECKED(cuCtxDestroy(other));
    CHECKED(cuCtxSetCurrent(context));
    load_kernel();
    keep(2);
  }
  return 0;
}
