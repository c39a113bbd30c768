#include "tests/simcuda/driver/capture.h"

#include <algorithm>

#include "tests/simcuda/driver/call.h"

namespace simcuda {
namespace {

CUresult begin(Call& call, CUstream handle, CUstreamCaptureMode mode, Graph* graph, const CUgraphNode* dependencies,
               std::size_t count) {
  Stream* stream = find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  std::vector<GraphNode*> tail;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = call.state().find<GraphNode>(dependencies[i]);
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    tail.push_back(node);
  }
  auto capture = std::make_shared<Capture>();
  capture->id = call.state().next_id++;
  capture->owns_graph = graph == nullptr;
  capture->graph = graph != nullptr ? graph : call.state().add(new Graph);
  capture->mode = mode;
  capture->origin = stream;
  capture->thread = pthread_self();
  capture->joined.push_back(stream);
  if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) ++call.state().global_captures;
  stream->capture = capture;
  stream->capture_tail = tail;
  return CUDA_SUCCESS;
}

// The common part of the three versions of cuStreamGetCaptureInfo. The dependency array lives as long as the stream's
// tail does not change, as the documentation demands.
CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** dependencies, const CUgraphEdgeData** edges, std::size_t* count) {
  SIM_CALL(kContext);
  Stream* stream = find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->legacy && call.state().global_captures != 0) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : stream->capture->status;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(stream->capture->graph);
  if (dependencies != nullptr) *dependencies = reinterpret_cast<const CUgraphNode*>(stream->capture_tail.data());
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = stream->capture_tail.size();
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, CUgraphNode* dependencies, std::size_t count, unsigned flags) {
  SIM_CALL(kContext);
  Stream* stream = find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  std::vector<GraphNode*> tail;
  if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES) tail = stream->capture_tail;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = call.state().find<GraphNode>(dependencies[i]);
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    tail.push_back(node);
  }
  stream->capture_tail = tail;
  return CUDA_SUCCESS;
}

}  // namespace

GraphNode* capture_node(DriverState& state, Stream& stream, CUgraphNodeType type) {
  Graph& graph = *stream.capture->graph;
  GraphNode* node = state.add(new GraphNode);
  node->graph = &graph;
  node->work.type = type;
  node->dependencies = stream.capture_tail;
  graph.nodes.push_back(node);
  stream.capture_tail = {node};
  return node;
}

CUresult capture_allocation(DriverState& state, Stream& stream, std::size_t bytes, CUdeviceptr* out) {
  std::shared_ptr<GraphMemory> memory =
      reserve_graph_memory(state, *stream.capture->graph, stream.context->device, bytes, stream.capture_tail);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  GraphNode* node = capture_node(state, stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  node->work.memory = memory;
  node->work.allocation.bytesize = bytes;
  node->work.allocation.dptr = memory->address;
  node->work.allocation.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  node->work.allocation.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {memory->device}};
  *out = memory->address;
  return CUDA_SUCCESS;
}

CUresult capture_free(DriverState& state, Stream& stream, CUdeviceptr address) {
  std::shared_ptr<GraphMemory> memory = memory_to_free(state, *stream.capture->graph, address);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork& work = capture_node(state, stream, CU_GRAPH_NODE_TYPE_MEM_FREE)->work;
  work.freed = address;
  work.freed_memory = memory;
  return CUDA_SUCCESS;
}

CUresult check_capture_safe(DriverState& state, CUstreamCaptureMode thread_mode) {
  // Only global captures are searched: a thread-local one forbids such calls to its own thread, which is not simulated.
  if (state.global_captures == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  for (Object* object : state.objects) {
    if (object->type != ObjectType::kStream) continue;
    Capture* capture = static_cast<Stream*>(object)->capture.get();
    if (capture == nullptr || capture->mode != CU_STREAM_CAPTURE_MODE_GLOBAL) continue;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && !pthread_equal(capture->thread, pthread_self())) continue;
    capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

void finish_capture(DriverState& state, const std::shared_ptr<Capture>& capture) {
  if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL) --state.global_captures;
  for (Stream* stream : capture->joined) {
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
  capture->joined.clear();
  capture->graph = nullptr;  // events that were recorded in it are ordinary events again
}

}  // namespace simcuda

using simcuda::Stream;

SIM(cuStreamBeginCapture_v2)(CUstream stream, CUstreamCaptureMode mode) {
  SIM_CALL(kContext);
  return simcuda::begin(call, stream, mode, nullptr, nullptr, 0);
}

SIM(cuStreamBeginCapture)(CUstream stream) {
  return sim_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SIM(cuStreamBeginCaptureToGraph)
(CUstream stream, CUgraph handle, const CUgraphNode* dependencies, const CUgraphEdgeData*, std::size_t count,
 CUstreamCaptureMode mode) {
  SIM_CALL(kContext);
  simcuda::Graph* graph = call.state().find<simcuda::Graph>(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::begin(call, stream, mode, graph, dependencies, count);
}

SIM(cuStreamEndCapture)(CUstream handle, CUgraph* out) {
  SIM_CALL(kContext);
  Stream* stream = simcuda::find_stream(call.state(), call.context(), handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  std::shared_ptr<simcuda::Capture> capture = stream->capture;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  simcuda::Graph* graph = capture->graph;
  bool valid = capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  simcuda::finish_capture(call.state(), capture);
  if (!valid && capture->owns_graph) call.state().destroy(graph);
  if (out != nullptr) *out = valid ? reinterpret_cast<CUgraph>(graph) : nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

SIM(cuStreamIsCapturing)(CUstream stream, CUstreamCaptureStatus* status) {
  return simcuda::capture_info(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

SIM(cuStreamGetCaptureInfo)(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return simcuda::capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

SIM(cuStreamGetCaptureInfo_v2)
(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
 std::size_t* count) {
  return simcuda::capture_info(stream, status, id, graph, dependencies, nullptr, count);
}

SIM(cuStreamGetCaptureInfo_v3)
(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
 const CUgraphEdgeData** edges, std::size_t* count) {
  return simcuda::capture_info(stream, status, id, graph, dependencies, edges, count);
}

SIM(cuStreamUpdateCaptureDependencies)(CUstream stream, CUgraphNode* dependencies, std::size_t count, unsigned flags) {
  return simcuda::update_dependencies(stream, dependencies, count, flags);
}

SIM(cuStreamUpdateCaptureDependencies_v2)
(CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData*, std::size_t count, unsigned flags) {
  return simcuda::update_dependencies(stream, dependencies, count, flags);
}

SIM(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode) {
  SIM_CALL(kInit);
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, simcuda::thread_state().capture_mode);
  return CUDA_SUCCESS;
}
