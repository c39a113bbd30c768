// Graphs, executable graphs, memory that graphs allocate, and references that graphs take over.
#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace routes {

static CUgraph create_graph(const Driver& cuda) {
  CUgraph graph = nullptr;
  TRY(cuda.FUNCTION(cuGraphCreate)(&graph, 0));
  return graph;
}

SUBJECT_FUNCTION std::size_t make_graph(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  if (!leak) TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_graph_clone(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraph clone = nullptr;
  TRY(cuda.FUNCTION(cuGraphClone)(&clone, graph));
  TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  if (!leak) TRY(cuda.FUNCTION(cuGraphDestroy)(clone));
  return 0;
}

static CUstream create_stream(const Driver& cuda) {
  CUstream stream = nullptr;
  TRY(cuda.FUNCTION(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

SUBJECT_FUNCTION std::size_t make_graph_captured(const Driver& cuda, bool leak) {
  CUstream stream = create_stream(cuda);
  TRY(cuda.FUNCTION(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUgraph graph = nullptr;
  TRY(cuda.FUNCTION(cuStreamEndCapture)(stream, &graph));
  TRY(cuda.FUNCTION(cuStreamDestroy_v2)(stream));
  if (!leak) TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_exec(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraphExec exec = nullptr;
  TRY(cuda.FUNCTION(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  if (!leak) TRY(cuda.FUNCTION(cuGraphExecDestroy)(exec));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_exec_with_parameters(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {};
  CUgraphExec exec = nullptr;
  TRY(cuda.FUNCTION(cuGraphInstantiateWithParams)(&exec, graph, &parameters));
  TRY(cuda.FUNCTION(cuGraphUpload)(exec, nullptr));
  TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  if (!leak) TRY(cuda.FUNCTION(cuGraphExecDestroy)(exec));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_exec_old(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraphExec exec = nullptr;
  TRY(cuda.FUNCTION(cuGraphInstantiate_v2)(&exec, graph, nullptr, nullptr, 0));
  TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  if (!leak) TRY(cuda.FUNCTION(cuGraphExecDestroy)(exec));
  return 0;
}

SUBJECT_FUNCTION std::size_t make_exec_oldest(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraphExec exec = nullptr;
  TRY(cuda.FUNCTION(cuGraphInstantiate)(&exec, graph, nullptr, nullptr, 0));
  TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  if (!leak) TRY(cuda.FUNCTION(cuGraphExecDestroy)(exec));
  return 0;
}

// Launches the graph once, so that its memory is mapped, and destroys the graph: the memory outlives it.
static void launch_and_destroy(const Driver& cuda, CUgraph graph) {
  CUgraphExec exec = nullptr;
  TRY(cuda.FUNCTION(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  TRY(cuda.FUNCTION(cuGraphLaunch)(exec, nullptr));
  TRY(cuda.FUNCTION(cuStreamSynchronize)(nullptr));
  TRY(cuda.FUNCTION(cuGraphExecDestroy)(exec));
  TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
}

// Adds a node that allocates `bytes` and, with `freed`, one that frees them. Launches the graph. Returns the address.
static CUdeviceptr launch_memory_node(const Driver& cuda, std::size_t bytes, bool freed) {
  CUgraph graph = create_graph(cuda);
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = bytes;
  CUgraphNode node = nullptr;
  TRY(cuda.FUNCTION(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &parameters));
  CUgraphNode free_node = nullptr;
  if (freed) TRY(cuda.FUNCTION(cuGraphAddMemFreeNode)(&free_node, graph, &node, 1, parameters.dptr));
  launch_and_destroy(cuda, graph);
  return parameters.dptr;
}

SUBJECT_FUNCTION std::size_t make_graph_memory(const Driver& cuda, bool leak) {
  const CUdeviceptr pointer = launch_memory_node(cuda, 11021, false);
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  return 11021;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_freed_by_node(const Driver& cuda, bool leak) {
  launch_memory_node(cuda, 11035, !leak);
  return 11035;
}

// A node of cuGraphAddNode that allocates `bytes`, whose address it returns.
static CUgraphNodeParams allocation_node(std::size_t bytes) {
  CUgraphNodeParams parameters = {};
  parameters.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  parameters.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.alloc.bytesize = bytes;
  return parameters;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_node(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraphNodeParams parameters = allocation_node(11025);
  CUgraphNode node = nullptr;
  TRY(cuda.FUNCTION(cuGraphAddNode)(&node, graph, nullptr, 0, &parameters));
  launch_and_destroy(cuda, graph);
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(parameters.alloc.dptr));
  return 11025;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_node_v2(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUgraphNodeParams parameters = allocation_node(11027);
  CUgraphNode node = nullptr;
  TRY(cuda.FUNCTION(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &parameters));
  launch_and_destroy(cuda, graph);
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(parameters.alloc.dptr));
  return 11027;
}

// The update gives the executable the node of the second graph, so the launch allocates its memory.
template <typename Update>
static CUdeviceptr update_and_launch(const Driver& cuda, std::size_t bytes, Update update) {
  CUgraph graphs[2];
  CUgraphNodeParams parameters = {};
  for (CUgraph& graph : graphs) {
    graph = create_graph(cuda);
    parameters = allocation_node(bytes);
    CUgraphNode node = nullptr;
    TRY(cuda.FUNCTION(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &parameters));
  }
  CUgraphExec exec = nullptr;
  TRY(cuda.FUNCTION(cuGraphInstantiateWithFlags)(&exec, graphs[0], 0));
  TRY(update(exec, graphs[1]));
  TRY(cuda.FUNCTION(cuGraphLaunch)(exec, nullptr));
  TRY(cuda.FUNCTION(cuStreamSynchronize)(nullptr));
  TRY(cuda.FUNCTION(cuGraphExecDestroy)(exec));
  for (CUgraph graph : graphs) TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  return parameters.alloc.dptr;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_updated(const Driver& cuda, bool leak) {
  const CUdeviceptr pointer = update_and_launch(cuda, 11037, [&](CUgraphExec exec, CUgraph graph) {
    CUgraphExecUpdateResultInfo info = {};
    return cuda.FUNCTION(cuGraphExecUpdate_v2)(exec, graph, &info);
  });
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  return 11037;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_updated_old(const Driver& cuda, bool leak) {
  const CUdeviceptr pointer = update_and_launch(cuda, 11039, [&](CUgraphExec exec, CUgraph graph) {
    CUgraphNode error = nullptr;
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return cuda.FUNCTION(cuGraphExecUpdate)(exec, graph, &error, &result);
  });
  if (!leak) TRY(cuda.FUNCTION(cuMemFree_v2)(pointer));
  return 11039;
}

// Allocates `bytes` in the capture of `stream`, ends the capture and launches its graph.
static CUdeviceptr allocate_and_launch(const Driver& cuda, CUstream stream, std::size_t bytes) {
  CUdeviceptr pointer = 0;
  TRY(cuda.FUNCTION(cuMemAllocAsync)(&pointer, bytes, stream));
  CUgraph graph = nullptr;
  TRY(cuda.FUNCTION(cuStreamEndCapture)(stream, &graph));
  TRY(cuda.FUNCTION(cuStreamDestroy_v2)(stream));
  launch_and_destroy(cuda, graph);
  return pointer;
}

static void free_async(const Driver& cuda, CUdeviceptr pointer) {
  TRY(cuda.FUNCTION(cuMemFreeAsync)(pointer, nullptr));
  TRY(cuda.FUNCTION(cuStreamSynchronize)(nullptr));
}

SUBJECT_FUNCTION std::size_t make_graph_memory_captured(const Driver& cuda, bool leak) {
  CUstream stream = create_stream(cuda);
  TRY(cuda.FUNCTION(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  const CUdeviceptr pointer = allocate_and_launch(cuda, stream, 11023);
  if (!leak) free_async(cuda, pointer);
  return 11023;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_captured_old(const Driver& cuda, bool leak) {
  CUstream stream = create_stream(cuda);
  TRY(cuda.FUNCTION(cuStreamBeginCapture)(stream));
  const CUdeviceptr pointer = allocate_and_launch(cuda, stream, 11029);
  if (!leak) free_async(cuda, pointer);
  return 11029;
}

SUBJECT_FUNCTION std::size_t make_graph_memory_captured_to_graph(const Driver& cuda, bool leak) {
  CUgraph graph = create_graph(cuda);
  CUstream stream = create_stream(cuda);
  TRY(cuda.FUNCTION(cuStreamBeginCaptureToGraph)(stream, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
  const CUdeviceptr pointer = allocate_and_launch(cuda, stream, 11031);
  if (!leak) free_async(cuda, pointer);
  return 11031;
}

static CUuserObject create_user_object(const Driver& cuda, unsigned references) {
  static int owned = 0;
  CUuserObject object = nullptr;
  TRY(cuda.FUNCTION(cuUserObjectCreate)(
      &object, &owned, [](void*) {}, references, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  return object;
}

SUBJECT_FUNCTION std::size_t make_user_object(const Driver& cuda, bool leak) {
  CUuserObject object = create_user_object(cuda, 1);
  if (!leak) TRY(cuda.FUNCTION(cuUserObjectRelease)(object, 1));
  return 0;
}

// Released once after a second reference was taken: the object lives on.
SUBJECT_FUNCTION std::size_t make_user_object_retained(const Driver& cuda, bool leak) {
  CUuserObject object = create_user_object(cuda, 1);
  TRY(cuda.FUNCTION(cuUserObjectRetain)(object, 1));
  TRY(cuda.FUNCTION(cuUserObjectRelease)(object, 1));
  if (!leak) TRY(cuda.FUNCTION(cuUserObjectRelease)(object, 1));
  return 0;
}

// A graph takes over one of two references, and releases it when it is destroyed.
SUBJECT_FUNCTION std::size_t make_user_object_moved(const Driver& cuda, bool leak) {
  CUuserObject object = create_user_object(cuda, 2);
  CUgraph graph = create_graph(cuda);
  TRY(cuda.FUNCTION(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  TRY(cuda.FUNCTION(cuGraphDestroy)(graph));
  if (!leak) TRY(cuda.FUNCTION(cuUserObjectRelease)(object, 1));
  return 0;
}

}  // namespace routes
