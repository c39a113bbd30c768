// Gives an allocation of 11001 bytes to the driver in the way that the argument names, keeps no pointer to it, and
// never frees it. Or does something else that forbids the search for lost memory.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"

CUmodule g_module = nullptr;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

// The simulated driver takes any image. NVIDIA's wants code: a kernel that does nothing.
const char* const kImage =
    ".version 7.0\n.target sm_52\n.address_size 64\n.visible .global .align 8 .u64 kept;\n"
    ".visible .entry work(.param .u64 memory) { ret; }\n";

SUBJECT_FUNCTION void load() {
  CHECKED(cudaFree(nullptr));
  CHECKED(cuModuleLoadData(&g_module, kImage));
}

void CUDART_CB callback(void*) {}

SUBJECT_FUNCTION void give(const std::string& how) {
  if (how == "kernel") {
    load();
    CUfunction function = nullptr;
    CHECKED(cuModuleGetFunction(&function, g_module, "work"));
    void* memory = allocate_here();
    void* parameters[] = {&memory};
    CHECKED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    CHECKED(cudaDeviceSynchronize());
  }
  if (how == "variable") {
    load();
    CUdeviceptr variable = 0;
    size_t bytes = 0;
    CHECKED(cuModuleGetGlobal(&variable, &bytes, g_module, "kept"));
    void* memory = allocate_here();
    CHECKED(cuMemcpyHtoD(variable, &memory, sizeof(memory)));
  }
  if (how == "graph") {
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t node = nullptr;
    CHECKED(cudaGraphCreate(&graph, 0));
    cudaMemsetParams set = {};
    set.dst = allocate_here();
    set.elementSize = 1;
    set.width = 100;
    set.height = 1;
    CHECKED(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
  }
  if (how == "texture") {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = allocate_here();
    resource.res.linear.desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    resource.res.linear.sizeInBytes = 4096;
    cudaTextureDesc description = {};
    cudaTextureObject_t texture = 0;
    CHECKED(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  }
  if (how == "user-object") {
    cudaUserObject_t object = nullptr;
    CHECKED(cudaUserObjectCreate(&object, allocate_here(), callback, 1, cudaUserObjectNoDestructorSync));
  }
  if (how == "ipc") {
    static cudaIpcMemHandle_t handle;
    CHECKED(cudaIpcGetMemHandle(&handle, allocate_here()));
  }
  if (how == "array") {
    cudaArray_t array = nullptr;
    const cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindUnsigned);
    CHECKED(cudaMallocArray(&array, &format, 16, 16));
    void* memory = allocate_here();
    CHECKED(cudaMemcpy2DToArray(array, 0, 0, &memory, 8, 8, 1, cudaMemcpyHostToDevice));
  }
  if (how == "child") {
    allocate_here();
    if (fork() == 0) _exit(0);
    wait(nullptr);
  }
}

int main(int, char** argv) {
  const std::string how = argv[1];
  give(how);
  clear_stack();
  if (how == "quick-exit") {
    allocate_here();
    clear_stack();
    quick_exit(0);
  }
  if (how == "quick-exit-clears") {
    static void* volatile kept = nullptr;
    kept = allocate_here();
    at_quick_exit([] { kept = nullptr; });
    clear_stack();
    quick_exit(0);
  }
  if (how == "exit-in-thread") {
    std::thread([] {
      allocate_here();
      clear_stack();
      exit(0);
    }).join();
  }
  return 0;
}
