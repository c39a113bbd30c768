// Runs out of memory because of one place, the hog, which allocates about 45 % of the free memory in the way that the
// argument names. Other places hold 25 %, and then 35 % are asked for: hog WAY [kill|wait]. At once after the failed
// call, with "kill" the process ends itself by SIGKILL; with "wait" it prints "ready" and waits for the end of stdin.
// `hog list` prints the ways.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"

namespace {

std::size_t unit = 0;  // a hundredth of the free memory

constexpr std::size_t kStep = 2 << 20;
std::size_t units(double count) { return static_cast<std::size_t>(count * static_cast<double>(unit)) / kStep * kStep; }

class Buffer {
 public:
  SUBJECT_FUNCTION explicit Buffer(std::size_t bytes) { CHECKED(cudaMalloc(&memory_, bytes)); }
  ~Buffer() { CHECKED(cudaFree(memory_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 private:
  void* memory_ = nullptr;
};

std::vector<std::unique_ptr<Buffer>> buffers;

SUBJECT_FUNCTION void hog_one() {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, units(45)));
}

SUBJECT_FUNCTION void hog_small() {
  for (int i = 0; i < 200; ++i) {
    void* memory = nullptr;
    CHECKED(cudaMalloc(&memory, units(45) / 200));
  }
}

SUBJECT_FUNCTION void hog_pitched() {
  void* memory = nullptr;
  std::size_t pitch = 0;
  CHECKED(cudaMallocPitch(&memory, &pitch, 1 << 20, units(45) >> 20));
}

SUBJECT_FUNCTION void hog_3d() {
  cudaPitchedPtr memory = {};
  CHECKED(cudaMalloc3D(&memory, {1 << 12, 256, units(45) >> 20}));
}

SUBJECT_FUNCTION void hog_array() {
  const cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  for (std::size_t i = 0; i < units(45) >> 24; ++i) {
    cudaArray_t array = nullptr;
    CHECKED(cudaMallocArray(&array, &format, 2048, 2048, 0));
  }
}

SUBJECT_FUNCTION void hog_stream_ordered() {
  void* memory = nullptr;
  CHECKED(cudaMallocAsync(&memory, units(45), nullptr));
}

SUBJECT_FUNCTION void hog_own_pool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  CHECKED(cudaMemPoolCreate(&pool, &properties));
  void* memory = nullptr;
  CHECKED(cudaMallocFromPoolAsync(&memory, units(45), pool, nullptr));
}

SUBJECT_FUNCTION void hog_physical() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  CHECKED(cuMemCreate(&handle, units(45), &properties, 0));
}

SUBJECT_FUNCTION void hog_graph() {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaMemAllocNodeParams parameters = {};
  parameters.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.poolProps.location.type = cudaMemLocationTypeDevice;
  parameters.bytesize = units(45);
  CHECKED(cudaGraphCreate(&graph, 0));
  CHECKED(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  CHECKED(cudaGraphInstantiate(&exec, graph, 0));
  CHECKED(cudaGraphLaunch(exec, nullptr));
  CHECKED(cudaStreamSynchronize(nullptr));
}

SUBJECT_FUNCTION void hog_in_thread() {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, units(9)));
}

void hog_threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) threads.emplace_back(hog_in_thread);
  for (std::thread& thread : threads) thread.join();
}

SUBJECT_FUNCTION void hog_other_context() {
  CUcontext context = nullptr, popped = nullptr;
  CUdeviceptr memory = 0;
  CHECKED(cuCtxCreate(&context, nullptr, 0, 0));
  CHECKED(cuMemAlloc(&memory, units(42)));
  CHECKED(cuCtxPopCurrent(&popped));
}

SUBJECT_FUNCTION void hog_class() {
  for (int i = 0; i < 5; ++i) buffers.push_back(std::make_unique<Buffer>(units(9)));
}

SUBJECT_FUNCTION void hog_freed_in_part() {
  std::vector<void*> all;
  for (int i = 0; i < 13; ++i) {
    void* memory = nullptr;
    CHECKED(cudaMalloc(&memory, units(5)));
    all.push_back(memory);
  }
  for (int i = 0; i < 4; ++i) CHECKED(cudaFree(all[static_cast<std::size_t>(i)]));
}

SUBJECT_FUNCTION void hog_recursive(int depth) {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, units(1.5)));
  if (depth > 1) hog_recursive(depth - 1);
}

// One line, with a caller for each number.
SUBJECT_FUNCTION void hog_called() {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, units(1.5)));
}

template <int number>
SUBJECT_FUNCTION void call_hog() {
  hog_called();
  if constexpr (number > 1) call_hog<number - 1>();
}

SUBJECT_FUNCTION void hog_beside_idle_pool() {
  cudaMemPool_t pool = nullptr;
  std::uint64_t all = ~0ULL;
  void* memory = nullptr;
  CHECKED(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECKED(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  CHECKED(cudaMallocAsync(&memory, units(5), nullptr));
  CHECKED(cudaFreeAsync(memory, nullptr));
  CHECKED(cudaStreamSynchronize(nullptr));
  CHECKED(cudaMalloc(&memory, units(42)));
}

SUBJECT_FUNCTION void hog_driver_api() {
  CUdeviceptr memory = 0;
  CHECKED(cuMemAlloc(&memory, units(45)));
}

SUBJECT_FUNCTION void hog_driver_pitch() {
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  CHECKED(cuMemAllocPitch(&memory, &pitch, 1 << 20, units(45) >> 20, 4));
}

// Like a vector that grows.
SUBJECT_FUNCTION void hog_grows() {
  void* before = nullptr;
  for (const double share : {5.0, 10.0, 20.0, 45.0}) {
    void* memory = nullptr;
    CHECKED(cudaMalloc(&memory, units(share)));
    CHECKED(cudaFree(before));
    before = memory;
  }
}

SUBJECT_FUNCTION void higher_before() {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, units(70)));
  CHECKED(cudaFree(memory));
}

struct hog_functor {
  SUBJECT_FUNCTION void operator()() const {
    void* memory = nullptr;
    CHECKED(cudaMalloc(&memory, units(5)));
  }
};

void hog_std_function() {
  const std::function<void()> allocate = hog_functor();
  for (int i = 0; i < 9; ++i) allocate();
}

SUBJECT_FUNCTION void hog_streams() {
  for (int i = 0; i < 9; ++i) {
    cudaStream_t stream = nullptr;
    void* memory = nullptr;
    CHECKED(cudaStreamCreate(&stream));
    CHECKED(cudaMallocAsync(&memory, units(5), stream));
  }
}

struct Way {
  const char* name;
  std::function<void()> run;
};

const Way kWays[] = {
    {"one", hog_one},
    {"small", hog_small},
    {"pitched", hog_pitched},
    {"3d", hog_3d},
    {"array", hog_array},
    {"stream-ordered", hog_stream_ordered},
    {"own-pool", hog_own_pool},
    {"physical", hog_physical},
    {"graph", hog_graph},
    {"threads", hog_threads},
    {"other-context", hog_other_context},
    {"class", hog_class},
    {"freed-in-part", hog_freed_in_part},
    {"recursive", [] { hog_recursive(30); }},
    {"many-callers", [] { call_hog<30>(); }},
    {"idle-pool", hog_beside_idle_pool},
    {"driver-api", hog_driver_api},
    {"driver-pitch", hog_driver_pitch},
    {"grows", hog_grows},
    {"lower-than-before", [] { higher_before(), hog_one(); }},
    {"std-function", hog_std_function},
    {"streams", hog_streams},
};

SUBJECT_FUNCTION void* weights() {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, units(12)));
  return memory;
}

SUBJECT_FUNCTION void activations() {
  for (int i = 0; i < 40; ++i) {
    void* memory = nullptr;
    CHECKED(cudaMalloc(&memory, units(8) / 40));
  }
}

SUBJECT_FUNCTION void workspace() { buffers.push_back(std::make_unique<Buffer>(units(3))); }
SUBJECT_FUNCTION void scratch() { buffers.push_back(std::make_unique<Buffer>(units(2))); }

SUBJECT_FUNCTION void ask() {
  void* memory = nullptr;
  EXPECTED(cudaErrorMemoryAllocation, cudaMalloc(&memory, units(35)));
}

}  // namespace

int main(int count, char** words) {
  const char* name = count > 1 ? words[1] : "list";
  if (strcmp(name, "list") == 0) {
    for (const Way& way : kWays) puts(way.name);
    return 0;
  }
  std::size_t free_bytes = 0, total = 0;
  CHECKED(cudaMemGetInfo(&free_bytes, &total));
  unit = free_bytes / 100;
  weights();
  for (const Way& way : kWays) {
    if (strcmp(name, way.name) == 0) way.run();
  }
  activations();
  workspace();
  scratch();
  ask();
  const char* end = count > 2 ? words[2] : "";
  if (strcmp(end, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(end, "wait") == 0) {
    puts("ready");
    fflush(stdout);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  }
  buffers.clear();
  return 0;
}
