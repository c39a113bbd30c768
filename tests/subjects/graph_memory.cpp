// graph_memory CASE: the memory of a graph, which follows its launches. A case whose name begins with "leak" leaves one
// allocation, the others none. Prints the driver's own count of them.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/subjects/check.h"

namespace {

constexpr std::size_t kBytes = 20 << 20;

cudaStream_t stream;

cudaMemAllocNodeParams allocation() {
  cudaMemAllocNodeParams parameters = {};
  parameters.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.poolProps.location.type = cudaMemLocationTypeDevice;
  parameters.bytesize = kBytes;
  return parameters;
}

struct Made {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  void* pointer = nullptr;
};

SUBJECT_FUNCTION void add_allocation(Made* made, const cudaGraphNode_t* after = nullptr) {
  cudaMemAllocNodeParams parameters = allocation();
  CHECKED(cudaGraphAddMemAllocNode(&made->node, made->graph, after, after == nullptr ? 0 : 1, &parameters));
  made->pointer = parameters.dptr;
}

Made explicit_graph() {
  Made made;
  CHECKED(cudaGraphCreate(&made.graph, 0));
  add_allocation(&made);
  return made;
}

SUBJECT_FUNCTION Made generic_graph() {
  Made made;
  CHECKED(cudaGraphCreate(&made.graph, 0));
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeMemAlloc;
  parameters.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
  parameters.alloc.bytesize = kBytes;
  CHECKED(cudaGraphAddNode(&made.node, made.graph, nullptr, nullptr, 0, &parameters));
  made.pointer = parameters.alloc.dptr;
  return made;
}

SUBJECT_FUNCTION Made captured_graph() {
  Made made;
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECKED(cudaMallocAsync(&made.pointer, kBytes, stream));
  CHECKED(cudaStreamEndCapture(stream, &made.graph));
  return made;
}

cudaGraph_t freeing_graph(void* pointer) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  CHECKED(cudaGraphCreate(&graph, 0));
  CHECKED(cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, pointer));
  return graph;
}

cudaGraph_t captured_freeing_graph(void* pointer) {
  cudaGraph_t graph = nullptr;
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECKED(cudaFreeAsync(pointer, stream));
  CHECKED(cudaStreamEndCapture(stream, &graph));
  return graph;
}

cudaGraphExec_t executable(cudaGraph_t graph, unsigned long long flags = 0) {
  cudaGraphExec_t exec = nullptr;
  CHECKED(cudaGraphInstantiate(&exec, graph, flags));
  return exec;
}

SUBJECT_FUNCTION void launch(cudaGraphExec_t exec) { CHECKED(cudaGraphLaunch(exec, stream)); }

cudaGraphExec_t launched(cudaGraph_t graph) {
  cudaGraphExec_t exec = executable(graph);
  launch(exec);
  return exec;
}

void destroy(cudaGraphExec_t exec, cudaGraph_t graph) {
  CHECKED(cudaGraphExecDestroy(exec));
  CHECKED(cudaGraphDestroy(graph));
}

void leak() { launched(explicit_graph().graph); }
void leak_generic() { launched(generic_graph().graph); }
void leak_captured() { launched(captured_graph().graph); }

void leak_after_destroys() {
  const Made made = explicit_graph();
  destroy(launched(made.graph), made.graph);
}

void never_launched() { executable(explicit_graph().graph); }
void never_instantiated() { captured_graph(); }

void never_launched_and_destroyed() {
  const Made made = captured_graph();
  destroy(executable(made.graph), made.graph);
}

void freed() {
  const Made made = explicit_graph();
  cudaGraphExec_t exec = launched(made.graph);
  CHECKED(cudaFree(made.pointer));
  launch(exec);
  CHECKED(cudaFreeAsync(made.pointer, stream));
}

void leak_of_the_last_launch() {
  const Made made = captured_graph();
  cudaGraphExec_t exec = launched(made.graph);
  for (int i = 0; i < 2; ++i) {
    CHECKED(cudaFreeAsync(made.pointer, stream));
    launch(exec);
  }
}

void freed_after_destroys() {
  const Made made = explicit_graph();
  destroy(launched(made.graph), made.graph);
  CHECKED(cudaFreeAsync(made.pointer, stream));
}

void freed_in_its_graph() {
  Made made = explicit_graph();
  cudaGraphNode_t node = nullptr;
  CHECKED(cudaGraphAddMemFreeNode(&node, made.graph, &made.node, 1, made.pointer));
  cudaGraphExec_t exec = launched(made.graph);
  launch(exec);
}

// The second allocation has the address of the first one, which is freed before it.
void leak_at_a_used_address() {
  Made made = explicit_graph();
  void* first = made.pointer;
  cudaGraphNode_t node = nullptr;
  CHECKED(cudaGraphAddMemFreeNode(&node, made.graph, &made.node, 1, made.pointer));
  add_allocation(&made, &node);
  if (made.pointer != first) std::exit(3);
  launched(made.graph);
}

void freed_in_its_capture() {
  Made made;
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECKED(cudaMallocAsync(&made.pointer, kBytes, stream));
  CHECKED(cudaFreeAsync(made.pointer, stream));
  CHECKED(cudaStreamEndCapture(stream, &made.graph));
  launched(made.graph);
}

void freed_in_another_graph() {
  const Made made = explicit_graph();
  cudaGraphExec_t exec = launched(made.graph);
  cudaGraphExec_t free_exec = launched(freeing_graph(made.pointer));
  launch(exec);
  launch(free_exec);
}

void freed_in_another_capture() {
  const Made made = captured_graph();
  cudaGraphExec_t exec = launched(made.graph);
  launched(captured_freeing_graph(made.pointer));
  (void)exec;
}

void freed_in_another_graph_after_destroys() {
  const Made made = explicit_graph();
  cudaGraph_t freeing = freeing_graph(made.pointer);
  destroy(launched(made.graph), made.graph);
  destroy(launched(freeing), freeing);
}

void leak_with_a_graph_that_was_not_launched() {
  const Made made = explicit_graph();
  launched(made.graph);
  executable(freeing_graph(made.pointer));
}

// NVIDIA's sample graphMemoryNodes without one of its cudaFreeAsync: the graph that frees the memory is launched once,
// its owner twice.
void leak_after_another_graph() {
  const Made made = explicit_graph();
  cudaGraphExec_t exec = launched(made.graph);
  launched(freeing_graph(made.pointer));
  launch(exec);
}

void leak_of_auto_free() {
  const Made made = explicit_graph();
  cudaGraphExec_t exec = executable(made.graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  for (int i = 0; i < 3; ++i) launch(exec);
}

void auto_free() {
  const Made made = captured_graph();
  cudaGraphExec_t exec = executable(made.graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  for (int i = 0; i < 3; ++i) launch(exec);
  destroy(exec, made.graph);
  CHECKED(cudaFreeAsync(made.pointer, stream));
}

// Refused without auto-free: the memory is that of the first launch.
void leak_with_a_refused_launch() {
  cudaGraphExec_t exec = launched(explicit_graph().graph);
  EXPECTED(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
  (void)cudaGetLastError();
}

void leak_with_trim() {
  launched(explicit_graph().graph);
  CHECKED(cudaStreamSynchronize(stream));
  CHECKED(cudaDeviceGraphMemTrim(0));
}

void leak_of_a_child() {
  const Made child = explicit_graph();
  Made parent;
  CHECKED(cudaGraphCreate(&parent.graph, 0));
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeGraph;
  parameters.graph.graph = child.graph;
  parameters.graph.ownership = cudaGraphChildGraphOwnershipMove;
  CHECKED(cudaGraphAddNode(&parent.node, parent.graph, nullptr, nullptr, 0, &parameters));
  destroy(launched(parent.graph), parent.graph);
}

void freed_child() {
  const Made child = explicit_graph();
  Made parent;
  CHECKED(cudaGraphCreate(&parent.graph, 0));
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeGraph;
  parameters.graph.graph = child.graph;
  parameters.graph.ownership = cudaGraphChildGraphOwnershipMove;
  CHECKED(cudaGraphAddNode(&parent.node, parent.graph, nullptr, nullptr, 0, &parameters));
  cudaGraphNode_t node = nullptr;
  CHECKED(cudaGraphAddMemFreeNode(&node, parent.graph, &parent.node, 1, child.pointer));
  launched(parent.graph);
}

void clones() {
  Made made = explicit_graph();
  cudaGraph_t clone = nullptr;
  EXPECTED(cudaErrorNotSupported, cudaGraphClone(&clone, made.graph));
  (void)cudaGetLastError();
  cudaGraph_t plain = nullptr;
  CHECKED(cudaGraphCreate(&plain, 0));
  CHECKED(cudaGraphAddEmptyNode(&made.node, plain, nullptr, 0));
  CHECKED(cudaGraphClone(&clone, plain));
  launched(clone);
}

// The launch allocates the memory of the second graph.
void leak_of_an_update() {
  const Made first = explicit_graph(), second = explicit_graph();
  cudaGraphExec_t exec = executable(first.graph);
  cudaGraphExecUpdateResultInfo info = {};
  CHECKED(cudaGraphExecUpdate(exec, second.graph, &info));
  CHECKED(cudaGraphDestroy(first.graph));
  CHECKED(cudaGraphDestroy(second.graph));
  launch(exec);
}

void freed_update() {
  const Made first = explicit_graph(), second = explicit_graph();
  cudaGraphExec_t exec = launched(first.graph);
  cudaGraphExecUpdateResultInfo info = {};
  CHECKED(cudaGraphExecUpdate(exec, second.graph, &info));
  CHECKED(cudaFree(first.pointer));
  launch(exec);
  CHECKED(cudaFree(second.pointer));
}

void freed_twice() {
  const Made made = explicit_graph();
  launched(made.graph);
  CHECKED(cudaFree(made.pointer));
  EXPECTED(cudaErrorInvalidValue, cudaFree(made.pointer));
  (void)cudaGetLastError();
}

// A capture that fails takes its graph with it. The next graph may get its handle.
void failed_capture() {
  void* pointer = nullptr;
  cudaGraph_t graph = nullptr;
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECKED(cudaMallocAsync(&pointer, kBytes, stream));
  EXPECTED(cudaErrorStreamCaptureUnsupported, cudaMalloc(&pointer, kBytes));
  EXPECTED(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  (void)cudaGetLastError();
  const Made made = captured_graph();
  launched(made.graph);
  CHECKED(cudaFreeAsync(made.pointer, stream));
}

constexpr struct {
  const char* name;
  void (*run)();
} kCases[] = {
#define CASE(name) \
  { #name, name }
    CASE(leak),
    CASE(leak_generic),
    CASE(leak_captured),
    CASE(leak_after_destroys),
    CASE(never_launched),
    CASE(never_instantiated),
    CASE(never_launched_and_destroyed),
    CASE(freed),
    CASE(leak_of_the_last_launch),
    CASE(freed_after_destroys),
    CASE(freed_in_its_graph),
    CASE(leak_at_a_used_address),
    CASE(freed_in_its_capture),
    CASE(freed_in_another_graph),
    CASE(freed_in_another_capture),
    CASE(freed_in_another_graph_after_destroys),
    CASE(leak_with_a_graph_that_was_not_launched),
    CASE(leak_after_another_graph),
    CASE(leak_of_auto_free),
    CASE(auto_free),
    CASE(leak_with_a_refused_launch),
    CASE(leak_with_trim),
    CASE(leak_of_a_child),
    CASE(freed_child),
    CASE(clones),
    CASE(leak_of_an_update),
    CASE(freed_update),
    CASE(freed_twice),
    CASE(failed_capture),
#undef CASE
};

}  // namespace

// Without a case: lists the cases.
int main(int count, char** arguments) {
  if (count == 1) {
    for (const auto& one : kCases) std::printf("%s\n", one.name);
    return 0;
  }
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const auto& one : kCases) {
    if (count != 2 || std::strcmp(arguments[1], one.name) != 0) continue;
    one.run();
    CHECKED(cudaStreamSynchronize(stream));
    CHECKED(cudaDeviceGraphMemTrim(0));
    unsigned long long used = 0;
    CHECKED(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    CHECKED(cudaStreamDestroy(stream));
    constexpr unsigned long long kBlock = 32 << 20;  // of which the driver takes one for each of these allocations
    std::printf("%llu\n", (used + kBlock - 1) / kBlock);
    return 0;
  }
  return 2;
}
