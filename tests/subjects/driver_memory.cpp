// Calls after which the driver has taken memory for itself: driver_memory MODE.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

char image[] = "code";

SUBJECT_FUNCTION void load_code() {
  CUmodule module = nullptr;
  CHECKED(cuModuleLoadData(&module, image));
}

// The simulated driver takes memory for a kernel by its name.
SUBJECT_FUNCTION void launch(CUmodule module, const char* name, int times) {
  CUfunction function = nullptr;
  CHECKED(cuModuleGetFunction(&function, module, name));
  for (int i = 0; i < times; ++i) CHECKED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

SUBJECT_FUNCTION void launch_kernels() {
  CUmodule module = nullptr;
  CHECKED(cuModuleLoadData(&module, image));
  launch(module, "plain", 3);
  launch(module, "local_4096", 3);
  launch(module, "local_2048", 3);
  launch(module, "with_printf_and_heap", 3);
}

SUBJECT_FUNCTION CUgraphExec instantiate(int nodes) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECKED(cuGraphCreate(&graph, 0));
  for (int i = 0; i < nodes; ++i) {
    CUgraphNode node = nullptr;
    CHECKED(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  }
  CHECKED(cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECKED(cuGraphDestroy(graph));
  return exec;
}

SUBJECT_FUNCTION CUcontext second_context() {
  CUcontext context = nullptr;
  CHECKED(cuCtxCreate(&context, nullptr, 0, 0));
  CUcontext popped = nullptr;
  CHECKED(cuCtxPopCurrent(&popped));
  return context;
}

SUBJECT_FUNCTION void raise_stack_limit() { CHECKED(cudaDeviceSetLimit(cudaLimitStackSize, 2048)); }

SUBJECT_FUNCTION void make_streams() {
  for (int i = 0; i < 100; ++i) {
    cudaStream_t stream = nullptr;
    CHECKED(cudaStreamCreate(&stream));
  }
}

SUBJECT_FUNCTION void use_pools() {
  void* memory = nullptr;
  CHECKED(cudaMallocAsync(&memory, 40 << 20, nullptr));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  CHECKED(cudaMemPoolCreate(&pool, &properties));
  CHECKED(cudaMallocFromPoolAsync(&memory, 30 << 20, pool, nullptr));
  CHECKED(cudaFreeAsync(memory, nullptr));
}

// Like a library that asks before the program has chosen its device.
SUBJECT_FUNCTION void look_at_gpu_0() {
  CHECKED(cudaSetDevice(0));
  CHECKED(cudaFree(nullptr));
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, bytes));
  return memory;
}

void load_in_threads() {
  std::vector<std::thread> threads;
  CUcontext context = nullptr;
  CHECKED(cuCtxGetCurrent(&context));
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([context] {
      CHECKED(cuCtxSetCurrent(context));
      for (int turn = 0; turn < 20; ++turn) load_code();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Another thread allocates and frees whole blocks meanwhile.
void load_beside_allocations() {
  CUcontext context = nullptr;
  CHECKED(cuCtxGetCurrent(&context));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    CHECKED(cuCtxSetCurrent(context));
    while (!stop) {
      void* memory = allocate(std::size_t{2} << 20);
      CHECKED(cudaFree(memory));
    }
  });
  for (int turn = 0; turn < 40; ++turn) load_code();
  stop = true;
  other.join();
}

void load_while_capturing() {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  CHECKED(cudaStreamCreate(&stream));
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  load_code();
  CHECKED(cudaStreamEndCapture(stream, &graph));
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "all";
  if (mode == "stray") {
    look_at_gpu_0();
    CHECKED(cudaSetDevice(1));
    allocate(5 << 20);
    return 0;
  }
  if (mode == "two devices") {
    allocate(5 << 20);
    CHECKED(cudaSetDevice(1));
    CHECKED(cudaFree(allocate(5 << 20)));
    return 0;
  }
  allocate((3 << 20) + 1);
  if (mode == "all") {
    for (int i = 0; i < 10; ++i) allocate(1000);
    second_context();
    load_code();
    raise_stack_limit();
    make_streams();
    use_pools();
    instantiate(1000);
    CHECKED(cuGraphExecDestroy(instantiate(500)));
    instantiate(200);  // in the memory of the one that was destroyed
  } else if (mode == "kernels") {
    launch_kernels();
  } else if (mode == "lower limit") {
    CHECKED(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    CHECKED(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  } else if (mode == "contexts") {
    for (int i = 0; i < 20; ++i) CHECKED(cuCtxDestroy(second_context()));
  } else if (mode == "threads") {
    load_in_threads();
  } else if (mode == "beside allocations") {
    load_beside_allocations();
  } else if (mode == "capture") {
    load_while_capturing();
  } else if (mode == "out of memory") {
    void* memory = nullptr;
    EXPECTED(cudaErrorMemoryAllocation, cudaMalloc(&memory, std::size_t{1} << 40));
    kill(getpid(), SIGKILL);
  }
  return 0;
}
