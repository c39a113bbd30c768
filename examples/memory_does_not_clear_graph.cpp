// Question: "I destroyed the CUDA graph, and the memory that it allocated is still there."
//
// Memory that a graph allocates (cudaGraphAddMemAllocNode, or cudaMallocAsync while its stream is captured) outlives
// the launch: it stays until it is freed, also when the graph and its executable are destroyed. It can be
// freed by cudaFree or cudaFreeAsync, by a node of this or another graph, or by the next launch of an executable that
// was made with cudaGraphInstantiateFlagAutoFreeOnLaunch, which keeps the memory of the last launch. NVIDIA's sample
// graphMemoryNodes shows the ways.
//
// True report: clean. With --forget, where the last launch is not followed by a free, one leak of 64 MiB from
// add_result. With --auto-free the same: the two earlier launches were freed. A graph that is never launched
// (--no-launch) allocates nothing.
//
// run:
// expect: clean
// run: --forget
// expect: leak bytes=67108864 count=1 function=add_result api=cudaGraphAddMemAllocNode kind=graph-memory
// run: --auto-free
// expect: leak bytes=67108864 count=1 function=add_result api=cudaGraphAddMemAllocNode kind=graph-memory
// run: --no-launch
// expect: clean
#include "examples/check.h"

EXAMPLE_NOINLINE void* add_result(cudaGraph_t graph) {
  cudaMemAllocNodeParams allocation = {};
  allocation.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.poolProps.location.type = cudaMemLocationTypeDevice;
  allocation.bytesize = size_t{64} << 20;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation), "add a node that allocates");  // leak-here
  return allocation.dptr;
}

// An executable graph whose only node frees `memory`.
cudaGraphExec_t make_freeing_graph(void* memory) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphCreate(&graph, 0), "create a graph");
  check(cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, memory), "add a node that frees");
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiate the graph that frees");
  check(cudaGraphDestroy(graph), "destroy the graph that frees");
  return exec;
}

EXAMPLE_NOINLINE void compute(cudaGraphExec_t exec, cudaStream_t stream) {
  check(cudaGraphLaunch(exec, stream), "launch the graph");
}

int main(int argc, char** argv) {
  const bool auto_free = has_argument(argc, argv, "--auto-free");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "create a stream");
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), "create a graph");
  void* result = add_result(graph);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, auto_free ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0),
        "instantiate the graph");

  if (auto_free) {
    for (int i = 0; i < 3; ++i) compute(exec, stream);
  } else if (!has_argument(argc, argv, "--no-launch")) {
    compute(exec, stream);
    check(cudaFreeAsync(result, stream), "free the result of the first launch");
    cudaGraphExec_t freeing = make_freeing_graph(result);
    compute(exec, stream);
    check(cudaGraphLaunch(freeing, stream), "free the result of the second launch");
    check(cudaGraphExecDestroy(freeing), "destroy the graph that frees");
    compute(exec, stream);
    if (!has_argument(argc, argv, "--forget"))
      check(cudaFreeAsync(result, stream), "free the result of the third launch");
  }
  check(cudaGraphExecDestroy(exec), "destroy the executable graph");
  check(cudaGraphDestroy(graph), "destroy the graph");
  check(cudaStreamSynchronize(stream), "wait for the stream");
  check(cudaDeviceGraphMemTrim(0), "give unused graph memory back");
  check(cudaStreamDestroy(stream), "destroy the stream");
  return 0;
}
