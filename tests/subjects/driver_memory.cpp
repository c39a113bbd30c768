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
#include "tests/simcuda/driver/observer.h"

namespace {

int readings;  // calls of cuMemGetInfo, the library's too, once count_readings() was called

void count_readings() {
  CUuuid id;
  memcpy(id.bytes, "simcuda observer", sizeof(id.bytes));
  const void* table = nullptr;
  CHECKED(cuGetExportTable(&table, &id));
  static_cast<const simcuda::ObserverTable*>(table)->observe([](const char* name, const void*, const int*) {
    if (strncmp(name, "cuMemGetInfo", 12) == 0) ++readings;
  });
}

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

// All look-ups before the first launch.
SUBJECT_FUNCTION void launch_later() {
  CUmodule module = nullptr;
  CHECKED(cuModuleLoadData(&module, image));
  CUfunction functions[2] = {};
  CHECKED(cuModuleGetFunction(&functions[0], module, "plain"));
  CHECKED(cuModuleGetFunction(&functions[1], module, "local_4096"));
  for (CUfunction function : functions) {
    CHECKED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  }
}

// Kernels of other names, or always the same one.
SUBJECT_FUNCTION void look_up(int times, bool same) {
  CUmodule module = nullptr;
  CHECKED(cuModuleLoadData(&module, image));
  for (int i = 0; i < times; ++i) {
    CUfunction function = nullptr;
    CHECKED(cuModuleGetFunction(&function, module, same ? "same" : ("kernel" + std::to_string(i)).c_str()));
    int registers = 0;
    if (same) CHECKED(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
  }
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

CUgraph graph_with_kernel(const char* name) {
  CUmodule module = nullptr;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  CHECKED(cuModuleLoadData(&module, image));
  CHECKED(cuModuleGetFunction(&kernel.func, module, name));
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  CHECKED(cuGraphCreate(&graph, 0));
  CHECKED(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  return graph;
}

// The kernel's first launch is one of a graph. Each executable is launched twice.
SUBJECT_FUNCTION void launch_graph() {
  CUgraph graph = graph_with_kernel("local_4096");
  for (int i = 0; i < 2; ++i) {
    CUgraphExec exec = nullptr;
    CHECKED(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECKED(cuGraphLaunch(exec, nullptr));
    CHECKED(cuGraphLaunch(exec, nullptr));
    CHECKED(cuGraphExecDestroy(exec));
  }
}

// An executable gets a kernel with more local memory.
SUBJECT_FUNCTION void update_graph() {
  CUgraph graph = graph_with_kernel("plain");
  CUgraph other = graph_with_kernel("local_4096");
  CUgraphExec exec = nullptr;
  CUgraphExecUpdateResultInfo result = {};
  CHECKED(cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECKED(cuGraphLaunch(exec, nullptr));
  CHECKED(cuGraphExecUpdate(exec, other, &result));
  CHECKED(cuGraphLaunch(exec, nullptr));
}

// Graphs with memory of their own: uploaded first, or launched at once; freed, or left behind.
SUBJECT_FUNCTION CUgraphExec launch_graph_memory(bool upload, bool release) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS memory = {};
  memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.bytesize = std::size_t{32} << 20;
  CHECKED(cuGraphCreate(&graph, 0));
  CHECKED(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &memory));
  if (release) {
    CUgraphNode last = nullptr;
    CHECKED(cuGraphAddMemFreeNode(&last, graph, &node, 1, memory.dptr));
  }
  CHECKED(cuGraphInstantiateWithFlags(&exec, graph, 0));
  if (upload) CHECKED(cuGraphUpload(exec, nullptr));
  CHECKED(cuGraphLaunch(exec, nullptr));
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

// Streams that end at once; then ones that are kept, and ones in their place.
SUBJECT_FUNCTION void use_stream() {
  cudaStream_t stream = nullptr;
  CHECKED(cudaStreamCreate(&stream));
  CHECKED(cudaStreamDestroy(stream));
}
SUBJECT_FUNCTION void keep_streams() {
  cudaStream_t streams[3000];
  for (cudaStream_t& stream : streams) CHECKED(cudaStreamCreate(&stream));
  for (int i = 0; i < 1000; ++i) CHECKED(cudaStreamDestroy(streams[i]));
  for (int i = 0; i < 1000; ++i) CHECKED(cudaStreamCreate(&streams[i]));
}
SUBJECT_FUNCTION void keep_others() {
  for (int i = 0; i < 100; ++i) {
    cudaStream_t stream = nullptr;
    CHECKED(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  }
}
void report_readings(const char* of) {
  printf("%s %d\n", of, readings);
  readings = 0;
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

cudaMemPool_t make_pool(cudaMemLocation location) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = location;
  cudaMemPool_t pool = nullptr;
  CHECKED(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

// Memory that the stream or the current device does not tell the place of.
SUBJECT_FUNCTION void allocate_elsewhere() {
  cudaMemPool_t own[2] = {make_pool({cudaMemLocationTypeHost, {0}}), make_pool({cudaMemLocationTypeDevice, {1}})};
  cudaMemPool_t default_of_1 = nullptr;
  CHECKED(cudaDeviceGetDefaultMemPool(&default_of_1, 1));
  void* memory = nullptr;
  for (cudaMemPool_t pool : {own[0], own[1], default_of_1}) {
    for (int i = 0; i < 2; ++i) CHECKED(cudaMallocFromPoolAsync(&memory, std::size_t{16} << 20, pool, nullptr));
    CHECKED(cudaFreeAsync(memory, nullptr));
  }
  CUmemAllocationProp physical = {};
  physical.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  CUmemGenericAllocationHandle handle = 0;
  CHECKED(cuMemCreate(&handle, std::size_t{8} << 20, &physical, 0));
  // A pool with the handle of another one.
  CHECKED(cudaMemPoolDestroy(make_pool({cudaMemLocationTypeHost, {0}})));
  for (int i = 0; i < 20; ++i) {
    cudaMemPool_t pool = make_pool({i % 2 == 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, {0}});
    CHECKED(cudaMallocFromPoolAsync(&memory, std::size_t{1} << 20, pool, nullptr));
    CHECKED(cudaFreeAsync(memory, nullptr));
    if (i == 19) CHECKED(cudaMallocFromPoolAsync(&memory, std::size_t{1} << 20, pool, nullptr));
    if (i != 19) CHECKED(cudaMemPoolDestroy(pool));
  }
}

// Like a library that asks before the program has chosen its device.
SUBJECT_FUNCTION void look_at_gpu_0() {
  CHECKED(cudaSetDevice(0));
  CHECKED(cudaFree(nullptr));
}

// Work as PyTorch's small tensor does it: a cached segment of 2 MiB, and a kernel.
SUBJECT_FUNCTION void* work_on(int device, std::size_t bytes, CUfunction* function) {
  CHECKED(cudaSetDevice(device));
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, bytes));
  CUmodule module = nullptr;
  CHECKED(cuModuleLoadData(&module, image));
  CHECKED(cuModuleGetFunction(function, module, "plain"));
  CHECKED(cuLaunchKernel(*function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  return memory;
}

void launch_on(int device, CUfunction function) {
  CHECKED(cudaSetDevice(device));
  CHECKED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

constexpr std::size_t kSegment = 2 << 20, kModel = 64 << 20;

// Ways to leave a context on GPU 0, and ways to use it.
void work_on_two(const std::string& way) {
  CUfunction first = nullptr, second = nullptr;
  if (way == "tensor before" || way == "checkpoint before") {
    void* segment = work_on(0, kSegment, &first);
    void* model = work_on(1, kModel, &second);
    if (way == "tensor before") return;
    // load_state_dict(): a kernel on the source's GPU, with events on both.
    launch_on(0, first);
    for (const int device : {1, 0, 1, 0, 1}) {
      CHECKED(cudaSetDevice(device));
      cudaEvent_t event = nullptr;
      CHECKED(cudaEventCreate(&event));
      CHECKED(cudaMemcpy(model, segment, 4096, cudaMemcpyDefault));
      CHECKED(cudaEventDestroy(event));
    }
    launch_on(1, second);
  } else if (way == "checkpoint after") {
    work_on(1, kModel, &second);
    work_on(0, kSegment, &first);
    launch_on(1, second);
    work_on(1, kModel, &second);
  } else if (way == "freed") {
    CHECKED(cudaFree(work_on(0, kSegment, &first)));
    work_on(1, kModel, &second);
  } else if (way == "launches") {
    work_on(0, kSegment, &first);
    work_on(1, kModel, &second);
    for (int i = 0; i < 10; ++i) {
      launch_on(0, first);
      launch_on(1, second);
    }
  } else if (way == "pipeline") {
    work_on(0, kSegment, &first);
    work_on(1, kModel, &second);
    work_on(0, kSegment, &first);
    work_on(1, kModel, &second);
  } else if (way == "large") {
    work_on(0, std::size_t{10} << 20, &first);
    work_on(1, kModel, &second);
  } else if (way == "second last") {
    work_on(1, kModel, &second);
    work_on(0, kSegment, &first);
  } else if (way == "threads") {
    work_on(0, kSegment, &first);
    work_on(1, kModel, &second);
    for (int i = 0; i < 8; ++i) {
      std::thread(launch_on, 0, first).join();
      std::thread(launch_on, 1, second).join();
    }
  }
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

// Another thread's graphs allocate and free meanwhile.
void load_beside_graph_memory() {
  CUcontext context = nullptr;
  CHECKED(cuCtxGetCurrent(&context));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    CHECKED(cuCtxSetCurrent(context));
    CUgraphExec exec = launch_graph_memory(false, true);
    while (!stop) {
      CHECKED(cuGraphLaunch(exec, nullptr));
      CHECKED(cuDeviceGraphMemTrim(0));
    }
  });
  for (int turn = 0; turn < 40; ++turn) load_code();
  stop = true;
  other.join();
}

// Segments in whole blocks, streams, code, and hundreds of kernels, most of which take nothing.
void start_as_framework() {
  for (int turn = 0; turn < 20; ++turn) {
    allocate(std::size_t{2} << 20);
    cudaStream_t stream = nullptr;
    CHECKED(cudaStreamCreate(&stream));
    load_code();
    look_up(30, false);
  }
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
  if (mode == "work on two") {
    work_on_two(count > 2 ? words[2] : "");
    return 0;
  }
  if (mode == "two devices") {
    allocate(5 << 20);
    CHECKED(cudaSetDevice(1));
    CHECKED(cudaFree(allocate(5 << 20)));
    return 0;
  }
  if (mode == "in a handler") {
    signal(SIGUSR1, [](int) { CHECKED(cudaFree(nullptr)); });
    raise(SIGUSR1);
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
  } else if (mode == "some streams") {
    make_streams();
  } else if (mode == "framework") {
    start_as_framework();
  } else if (mode == "streams") {
    count_readings();
    for (int i = 0; i < 20000; ++i) use_stream();
    report_readings("pairs");
    keep_streams();
    report_readings("kept");
    keep_others();
    report_readings("others");
    CUcontext context = second_context();
    CHECKED(cuCtxPushCurrent(context));
    make_streams();
    CHECKED(cuCtxPopCurrent(&context));
    report_readings("context");
  } else if (mode == "kernels") {
    launch_kernels();
  } else if (mode == "kernels later") {
    launch_later();
  } else if (mode == "look-ups") {
    look_up(5000, false);
    instantiate(1000);
    launch_later();
  } else if (mode == "same look-up") {
    look_up(5000, true);
    instantiate(1000);
  } else if (mode == "graph kernel") {
    launch_graph();
  } else if (mode == "updated graph") {
    update_graph();
  } else if (mode == "beside graph memory") {
    load_beside_graph_memory();
  } else if (mode == "graph memory") {
    for (const bool upload : {false, true}) {
      for (const bool release : {false, true}) launch_graph_memory(upload, release);
    }
  } else if (mode == "elsewhere") {
    allocate_elsewhere();
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
