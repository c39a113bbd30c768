// Programs whose memory in use balance.py explains: balance MODE. nvcc compiles this on the machine with the GPU.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                       \
  do {                                                                    \
    const cudaError_t status = (call);                                    \
    if (status != cudaSuccess) {                                          \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));     \
      exit(3);                                                            \
    }                                                                     \
  } while (0)

#ifdef BIG_ARRAY
__device__ char big[64 << 20];
__global__ void use_big(int n) { big[n] = 1; }
#endif
__global__ void plain(int* p) {
  if (p != nullptr) *p = 1;
}
__global__ void local_16384(int* p, int n) {
  volatile int a[4096];
  for (int i = 0; i < 4096; ++i) a[i] = i * n;
  if (p != nullptr) *p = a[n & 4095];
}
__global__ void prints(int n) {
  if (n == 12345) printf("%d\n", n);
}
__global__ void allocates(int n) {
  char* p = static_cast<char*>(malloc(16 + n));
  if (p != nullptr) free(p);
}

// A graph of `count` kernels that do not depend on each other.
cudaGraphExec_t instantiate(int count) {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  int* nothing = nullptr;
  void* arguments[] = {&nothing};
  cudaKernelNodeParams parameters = {};
  parameters.func = reinterpret_cast<void*>(plain);
  parameters.gridDim = parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
  for (int i = 0; i < count; ++i) {
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  }
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaGraphDestroy(graph));
  return exec;
}

cudaGraphExec_t instantiate_and_destroy(cudaGraph_t graph) {
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return exec;
}

// The first launch of the kernel is the graph's.
void launch_in_graph() {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  int* nothing = nullptr;
  int one = 1;
  void* arguments[] = {&nothing, &one};
  cudaKernelNodeParams parameters = {};
  parameters.func = reinterpret_cast<void*>(local_16384);
  parameters.gridDim = parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  CHECK(cudaGraphLaunch(instantiate_and_destroy(graph), nullptr));
  CHECK(cudaDeviceSynchronize());
}

// Graphs that allocate 200 MiB: uploaded first or not; freed in the graph or left behind.
void allocate_in_graph(bool upload, bool release) {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams memory = {};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location = {cudaMemLocationTypeDevice, 0};
  memory.bytesize = 200 << 20;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &memory));
  if (release) {
    cudaGraphNode_t last;
    CHECK(cudaGraphAddMemFreeNode(&last, graph, &node, 1, memory.dptr));
  }
  cudaGraphExec_t exec = instantiate_and_destroy(graph);
  if (upload) CHECK(cudaGraphUpload(exec, nullptr));
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
}

int main(int count, char** words) {
  const char* mode = count > 1 ? words[1] : "plain";
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 100 << 20));
  plain<<<1, 1>>>(static_cast<int*>(memory));
  CHECK(cudaDeviceSynchronize());
  if (strcmp(mode, "stack") == 0) CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 32 << 10));
  if (strcmp(mode, "local") == 0) local_16384<<<1, 1>>>(static_cast<int*>(memory), 3);
  if (strcmp(mode, "device") == 0) {
    prints<<<1, 1>>>(1);
    allocates<<<1, 1>>>(1);
  }
#ifdef BIG_ARRAY
  use_big<<<1, 1>>>(3);
#endif
  CHECK(cudaDeviceSynchronize());
  if (strcmp(mode, "graphs") == 0) {
    for (int i = 0; i < 4; ++i) instantiate(1000);  // never destroyed
    for (int i = 0; i < 4; ++i) CHECK(cudaGraphExecDestroy(instantiate(500)));
  }
  if (strcmp(mode, "graph-local") == 0) launch_in_graph();
  if (strcmp(mode, "graph-memory") == 0) {
    for (int i = 0; i < 4; ++i) allocate_in_graph((i & 1) != 0, (i & 2) != 0);
  }
  if (strcmp(mode, "pools") == 0) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    void* pieces[20];
    for (void*& piece : pieces) CHECK(cudaMallocAsync(&piece, 10 << 20, stream));
    for (int i = 0; i < 10; ++i) CHECK(cudaFreeAsync(pieces[i], stream));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    uint64_t most = ~0ULL;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &most));
    void* own = nullptr;
    CHECK(cudaMallocFromPoolAsync(&own, 300 << 20, pool, stream));
    CHECK(cudaFreeAsync(own, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  if (strcmp(mode, "host-pool") == 0) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeHost;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    void* own = nullptr;
    CHECK(cudaMallocFromPoolAsync(&own, 200 << 20, pool, nullptr));
    CHECK(cudaDeviceSynchronize());
  }
  if (strcmp(mode, "small") == 0) {
    std::vector<void*> pieces(3000);
    for (std::size_t i = 0; i < pieces.size(); ++i) CHECK(cudaMalloc(&pieces[i], 1000 + i));
    for (int i = 0; i < 40; ++i) {
      cudaStream_t stream;
      CHECK(cudaStreamCreate(&stream));
    }
  }
  std::size_t available = 0, total = 0;
  CHECK(cudaMemGetInfo(&available, &total));
  printf("in use %.1f MiB\n", static_cast<double>(total - available) / (1 << 20));
  return 0;
}
