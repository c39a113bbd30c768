// Graphs, executable graphs, and memory that graphs allocate.
#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace routes {
namespace {

CUgraph create_graph(const Driver& cuda) {
  CUgraph graph = nullptr;
  TRY(cuda.cuGraphCreate(&graph, 0));
  return graph;
}

SUBJECT_FUNCTION std::size_t make_graph(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  if (!leak) TRY(cuda.cuGraphDestroy(graph));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_graph_clone(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraph clone = nullptr;
  TRY(cuda.cuGraphClone(&clone, graph));
  TRY(cuda.cuGraphDestroy(graph));
  if (!leak) TRY(cuda.cuGraphDestroy(clone));
  return 0;
}

CUstream begin_capture(const Driver& cuda) {
  CUstream stream = nullptr;
  TRY(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  TRY(cuda.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  return stream;
}

SUBJECT_FUNCTION std::size_t make_graph_captured(const Driver& cuda, bool leak) {
  CUstream stream = begin_capture(cuda);
  CUgraph graph = nullptr;
  TRY(cuda.cuStreamEndCapture(stream, &graph));
  TRY(cuda.cuStreamDestroy_v2(stream));
  if (!leak) TRY(cuda.cuGraphDestroy(graph));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_exec(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraphExec exec = nullptr;
  TRY(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0));
  TRY(cuda.cuGraphDestroy(graph));
  if (!leak) TRY(cuda.cuGraphExecDestroy(exec));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_exec_with_parameters(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {};
  CUgraphExec exec = nullptr;
  TRY(cuda.cuGraphInstantiateWithParams(&exec, graph, &parameters));
  TRY(cuda.cuGraphDestroy(graph));
  if (!leak) TRY(cuda.cuGraphExecDestroy(exec));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_exec_old(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraphExec exec = nullptr;
  TRY(cuda.cuGraphInstantiate_v2(&exec, graph, nullptr, nullptr, 0));
  TRY(cuda.cuGraphDestroy(graph));
  if (!leak) TRY(cuda.cuGraphExecDestroy(exec));
  return 0;
}

// Launches the graph once, so that its memory is mapped, and destroys the graph: the memory outlives it.
void launch_and_destroy(const Driver& cuda, CUgraph graph) {
  CUgraphExec exec = nullptr;
  TRY(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0));
  TRY(cuda.cuGraphLaunch(exec, nullptr));
  TRY(cuda.cuStreamSynchronize(nullptr));
  TRY(cuda.cuGraphExecDestroy(exec));
  TRY(cuda.cuGraphDestroy(graph));
}

SUBJECT_FUNCTION std::size_t make_graph_memory(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = 11021;
  CUgraphNode node = nullptr;
  TRY(cuda.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  launch_and_destroy(cuda, graph);
  if (!leak) TRY(cuda.cuMemFree_v2(parameters.dptr));
  return 11021;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_captured(const Driver& cuda, bool leak) {
  CUstream stream = begin_capture(cuda);
  CUdeviceptr pointer = 0;
  TRY(cuda.cuMemAllocAsync(&pointer, 11023, stream));
  CUgraph graph = nullptr;
  TRY(cuda.cuStreamEndCapture(stream, &graph));
  TRY(cuda.cuStreamDestroy_v2(stream));
  launch_and_destroy(cuda, graph);
  if (!leak) TRY(cuda.cuMemFreeAsync(pointer, nullptr));
  TRY(cuda.cuStreamSynchronize(nullptr));
  return 11023;
}

}  // namespace

std::vector<Kind> graph_kinds() {
  return {{"graph", make_graph},
          {"graph_clone", make_graph_clone},
          {"graph_captured", make_graph_captured},
          {"exec", make_exec},
          {"exec_with_parameters", make_exec_with_parameters},
          {"exec_old", make_exec_old},
          {"graph_memory", make_graph_memory},
          {"graph_memory_captured", make_graph_memory_captured}};
}

}  // namespace routes
