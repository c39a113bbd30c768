// want_of_memory CALL: a call that allocates nothing for the program, and fails because the driver has no memory for
// it. Without an argument: the names, each with the function that the simulated driver must refuse ("-": it refuses by
// itself, on a device of 600 MiB with SIMCUDA_OWN_MEMORY=1).
#include <cuda.h>

#include <cstdio>
#include <cstring>

#include "tests/subjects/check.h"

namespace {

char image[] = "code";

CUgraph graph_with_memory() {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CHECKED(cuGraphCreate(&graph, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  parameters.bytesize = std::size_t{200} << 20;
  CHECKED(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  return graph;
}

CUgraphExec executable(CUgraph graph) {
  CUgraphExec exec = nullptr;
  CHECKED(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

CUgraph empty_graph() {
  CUgraph graph = nullptr;
  CHECKED(cuGraphCreate(&graph, 0));
  return graph;
}

CUmodule module() {
  CUmodule loaded = nullptr;
  CHECKED(cuModuleLoadData(&loaded, image));
  return loaded;
}

CUfunction kernel(const char* name) {
  CUfunction function = nullptr;
  CHECKED(cuModuleGetFunction(&function, module(), name));
  return function;
}

SUBJECT_FUNCTION int launch_graph() { return cuGraphLaunch(executable(graph_with_memory()), nullptr); }
SUBJECT_FUNCTION int instantiate_graph() {
  CUgraphExec exec = nullptr;
  return cuGraphInstantiateWithFlags(&exec, empty_graph(), 0);
}
SUBJECT_FUNCTION int upload_graph() { return cuGraphUpload(executable(empty_graph()), nullptr); }
SUBJECT_FUNCTION int update_graph() {
  CUgraphExecUpdateResultInfo info = {};
  CUgraph graph = empty_graph();
  return cuGraphExecUpdate(executable(graph), graph, &info);
}
SUBJECT_FUNCTION int launch_kernel() {
  return cuLaunchKernel(kernel("local_16384"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}
// Not the first launch after code was loaded.
SUBJECT_FUNCTION int launch_kernel_again() {
  CUfunction small = kernel("plain");
  CUfunction large = kernel("local_16384");
  CHECKED(cuLaunchKernel(small, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  return cuLaunchKernel(large, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}
SUBJECT_FUNCTION int raise_limit() { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 32 << 10); }
SUBJECT_FUNCTION int load_module() {
  CUmodule loaded = nullptr;
  return cuModuleLoadData(&loaded, image);
}
SUBJECT_FUNCTION int load_library() {
  CUlibrary library = nullptr;
  return cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
SUBJECT_FUNCTION int look_up_kernel() {
  CUfunction function = nullptr;
  return cuModuleGetFunction(&function, module(), "plain");
}
SUBJECT_FUNCTION int look_up_managed() {
  CUlibrary library = nullptr;
  CUdeviceptr memory = 0;
  std::size_t bytes = 0;
  CHECKED(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  return cuLibraryGetManaged(&memory, &bytes, library, "table");
}
SUBJECT_FUNCTION int create_context() {
  CUcontext context = nullptr;
  return cuCtxCreate(&context, nullptr, 0, 0);
}
SUBJECT_FUNCTION int create_stream() {
  CUstream stream = nullptr;
  return cuStreamCreate(&stream, 0);
}
SUBJECT_FUNCTION int allocate_pitched() {
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  return cuMemAllocPitch(&memory, &pitch, 1 << 20, 200, 4);
}

struct Call {
  const char* name;
  const char* refused;
  int (*call)();
};
const Call kCalls[] = {
    {"launch_graph", "-", launch_graph},
    {"instantiate_graph", "cuGraphInstantiateWithFlags", instantiate_graph},
    {"upload_graph", "cuGraphUpload", upload_graph},
    {"update_graph", "cuGraphExecUpdate_v2", update_graph},
    {"launch_kernel", "-", launch_kernel},
    {"launch_kernel_again", "-", launch_kernel_again},
    {"raise_limit", "-", raise_limit},
    {"load_module", "cuModuleLoadData", load_module},
    {"load_library", "cuLibraryLoadData", load_library},
    {"look_up_kernel", "cuModuleGetFunction", look_up_kernel},
    {"look_up_managed", "cuLibraryGetManaged", look_up_managed},
    {"create_context", "-", create_context},
    {"create_stream", "cuStreamCreate", create_stream},
    {"allocate_pitched", "-", allocate_pitched},
};

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    for (const Call& one : kCalls) printf("%s %s\n", one.name, one.refused);
    return 0;
  }
  CUcontext context = nullptr;
  CHECKED(cuInit(0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuCtxSetCurrent(context));
  for (const Call& one : kCalls) {
    if (strcmp(one.name, words[1]) == 0) EXPECTED(CUDA_ERROR_OUT_OF_MEMORY, one.call());
  }
  return 0;
}
