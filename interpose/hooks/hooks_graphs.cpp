// Stream capture, graphs and the memory that graphs make.
//
// events/graph_memory.h follows the memory of graphs.
#include "interpose/driver/driver.h"
#include "interpose/events/events.h"
#include "interpose/events/graph_launches.h"
#include "interpose/events/graph_memory.h"
#include "interpose/events/pool_places.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/stream_ordered.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {
namespace {

using format::Kind;

// The graph that a call on this stream goes into, nullptr when the stream is not being captured.
__attribute__((always_inline)) inline CUgraph captured_graph(CUstream stream) {
  return are_captures() ? ask_captured_graph(stream) : nullptr;
}

// Of a pool that `memory` was just allocated from.
inline int device_of_pool(CUmemoryPool pool, CUdeviceptr memory) {
  Process* process = process_if_recording();
  if (process == nullptr) return PoolPlaces::kUnknown;
  const int device = pool_places_of(*process).of(pool);
  return CULPRIT_LIKELY(device != PoolPlaces::kUnknown) ? device : ask_pool_device(pool, memory);
}

void note_capture_begun(CUresult status) {
  if (status != CUDA_SUCCESS) return;
  record_on_own_stack([](Process& process) { process.hooks.captures.fetch_add(1, std::memory_order_relaxed); });
}

template <typename Call>
CUresult end_capture(Api api, Call call, CUstream stream, CUgraph* graph) {
  CUresult status = call(stream, graph);
  Process* process = process_if_recording();
  if (process == nullptr) return status;
  // The capture continues only if another thread or another stream must end it.
  bool goes_on = status == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD || status == CUDA_ERROR_ILLEGAL_STATE ||
                 status == CUDA_ERROR_INVALID_VALUE;
  if (!goes_on && process->hooks.captures.load(std::memory_order_relaxed) > 0)
    process->hooks.captures.fetch_sub(1, std::memory_order_relaxed);
  if (status != CUDA_SUCCESS && !goes_on) note_capture_ended(0);
  if (status != CUDA_SUCCESS || graph == nullptr || *graph == nullptr) return status;
  bool known = false;  // captured into a graph that existed before
  record_on_own_stack([&](Process& recording) {
    known = recording.tables.live.find(space_of(Kind::kGraph), handle(*graph), format::kNoDevice, recording.dump) != 0;
  });
  note_capture_ended(handle(*graph));
  if (!known) note_made({api, Kind::kGraph, handle(*graph), 0, 0});
  return status;
}

template <typename Call>
CUresult launch(Api api, Call call, CUgraphExec exec, CUstream stream) {
  MeteredLaunch metered(api, exec);
  CUresult status = call(exec, stream);
  const std::int64_t taken = metered.finish(status);
  if (CULPRIT_UNLIKELY(taken > 0)) note_executable_grown(handle(exec), taken);
  if (CULPRIT_LIKELY(status == CUDA_SUCCESS)) note_launched(handle(exec));
  return status;
}

// Its kernels may be others now.
void note_updated(CUgraphExec exec, CUgraph graph, CUresult status) {
  if (status != CUDA_SUCCESS) return;
  note_executable(handle(exec), handle(graph));
  forget_graph_launch(exec);
}

template <typename Call>
CUresult upload(Api api, Call call, CUgraphExec exec, CUstream stream) {
  std::int64_t taken = 0;
  CUresult status = call_metered<DriverMemory::kGraphExecutables>(
      api, [&] { return call(exec, stream); }, &taken);
  if (taken > 0) note_executable_grown(handle(exec), taken);
  return status;
}

void note_node(Api api, CUgraph graph, CUdeviceptr address, std::size_t bytes, const CUmemPoolProps& pool) {
  note_graph_allocation({api, Kind::kGraphMemory, address, bytes, 0, place_of(&pool)}, handle(graph), false);
}

// A copy of the program's structure; nullptr where it cannot be read.
template <typename T>
T* copy_readable(const T* original, T* copy) {
  const std::int64_t got = os.read_own_memory(copy, reinterpret_cast<std::uint64_t>(original), sizeof(T));
  return got == static_cast<std::int64_t>(sizeof(T)) ? copy : nullptr;
}

template <typename Call>
CUresult add_node(Api api, Call call, CUgraph graph, CUgraphNodeParams* params) {
  // Read after the call: a driver that refuses it may not have looked at them. The memory is freed by a launch, so the
  // node may be recorded late.
  CUresult status = call();
  CUgraphNodeParams copy;
  if (status != CUDA_SUCCESS) params = copy_readable(params, &copy);
  if (params == nullptr) return status;
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    Ending ending(api, Kind::kGraphMemory, params->free.dptr);
    finish_free_node(ending, status, handle(graph), false);
    return status;
  }
  if (status != CUDA_SUCCESS) return status;
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    note_node(api, graph, params->alloc.dptr, params->alloc.bytesize, params->alloc.poolProps);
  } else if (params->type == CU_GRAPH_NODE_TYPE_GRAPH &&
             params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    note_child_moved(handle(params->graph.graph), handle(graph));
  }
  return status;
}

}  // namespace

CULPRIT_COLD CUgraph ask_captured_graph(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  if (driver().cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr) != CUDA_SUCCESS)
    return nullptr;
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : nullptr;
}

void note_stream_ordered(Api api, CUdeviceptr memory, std::size_t bytes, std::uint64_t pool, CUstream stream) {
  Where where = on_stream(stream);
  if (CUgraph graph = captured_graph(stream))
    return note_graph_allocation({api, Kind::kGraphMemory, memory, bytes, 0, where}, handle(graph), true);
  if (pool != 0) where.device = device_of_pool(reinterpret_cast<CUmemoryPool>(pool), memory);
  note_made({api, Kind::kStreamOrdered, memory, bytes, pool, where});
}

namespace custom {

CUresult cuStreamBeginCapture(decltype(&::cuStreamBeginCapture) call, CUstream hStream) {
  CUresult status = call(hStream);
  note_capture_begun(status);
  return status;
}
CUresult cuStreamBeginCapture_ptsz(decltype(&::cuStreamBeginCapture_ptsz) call, CUstream hStream) {
  CUresult status = call(hStream);
  note_capture_begun(status);
  return status;
}
CUresult cuStreamBeginCapture_v2(decltype(&::cuStreamBeginCapture_v2) call, CUstream hStream,
                                 CUstreamCaptureMode mode) {
  CUresult status = call(hStream, mode);
  note_capture_begun(status);
  return status;
}
CUresult cuStreamBeginCapture_v2_ptsz(decltype(&::cuStreamBeginCapture_v2_ptsz) call, CUstream hStream,
                                      CUstreamCaptureMode mode) {
  CUresult status = call(hStream, mode);
  note_capture_begun(status);
  return status;
}
CUresult cuStreamBeginCaptureToGraph(decltype(&::cuStreamBeginCaptureToGraph) call, CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* dependencyData,
                                     size_t numDependencies, CUstreamCaptureMode mode) {
  CUresult status = call(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
  note_capture_begun(status);
  return status;
}
CUresult cuStreamBeginCaptureToGraph_ptsz(decltype(&::cuStreamBeginCaptureToGraph_ptsz) call, CUstream hStream,
                                          CUgraph hGraph, const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                          CUstreamCaptureMode mode) {
  CUresult status = call(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
  note_capture_begun(status);
  return status;
}
CUresult cuStreamEndCapture(decltype(&::cuStreamEndCapture) call, CUstream hStream, CUgraph* phGraph) {
  return end_capture(Api::cuStreamEndCapture, call, hStream, phGraph);
}
CUresult cuStreamEndCapture_ptsz(decltype(&::cuStreamEndCapture_ptsz) call, CUstream hStream, CUgraph* phGraph) {
  return end_capture(Api::cuStreamEndCapture_ptsz, call, hStream, phGraph);
}

CUresult cuGraphAddMemAllocNode(decltype(&::cuGraphAddMemAllocNode) call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                const CUgraphNode* dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  CUresult status = call(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
  if (status == CUDA_SUCCESS && nodeParams != nullptr) {
    note_node(Api::cuGraphAddMemAllocNode, hGraph, nodeParams->dptr, nodeParams->bytesize, nodeParams->poolProps);
  }
  const bool known = nodeParams != nullptr && has_read_arguments(status);
  note_result(Api::cuGraphAddMemAllocNode, status, known ? nodeParams->bytesize : 0);
  return status;
}

CUresult cuGraphAddMemFreeNode(decltype(&::cuGraphAddMemFreeNode) call, CUgraphNode* phGraphNode, CUgraph hGraph,
                               const CUgraphNode* dependencies, size_t numDependencies, CUdeviceptr dptr) {
  Ending ending(Api::cuGraphAddMemFreeNode, Kind::kGraphMemory, dptr);
  CUresult status = call(phGraphNode, hGraph, dependencies, numDependencies, dptr);
  finish_free_node(ending, status, handle(hGraph), false);
  return status;
}

CUresult cuGraphAddNode(decltype(&::cuGraphAddNode) call, CUgraphNode* phGraphNode, CUgraph hGraph,
                        const CUgraphNode* dependencies, size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return add_node(
      Api::cuGraphAddNode, [&] { return call(phGraphNode, hGraph, dependencies, numDependencies, nodeParams); }, hGraph,
      nodeParams);
}
CUresult cuGraphAddNode_v2(decltype(&::cuGraphAddNode_v2) call, CUgraphNode* phGraphNode, CUgraph hGraph,
                           const CUgraphNode* dependencies, const CUgraphEdgeData* dependencyData,
                           size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return add_node(
      Api::cuGraphAddNode_v2,
      [&] { return call(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams); }, hGraph,
      nodeParams);
}

CUresult cuGraphDestroy(decltype(&::cuGraphDestroy) call, CUgraph hGraph) {
  Ending ending(Api::cuGraphDestroy, Kind::kGraph, handle(hGraph));
  CUresult status = call(hGraph);
  ending.finish(status);
  if (status == CUDA_SUCCESS) note_graph_destroyed(handle(hGraph));
  return status;
}

CUresult cuGraphExecDestroy(decltype(&::cuGraphExecDestroy) call, CUgraphExec hGraphExec) {
  Ending ending(Api::cuGraphExecDestroy, Kind::kGraphExec, handle(hGraphExec));
  ExecutableEnd end(ending.record());
  CUresult status = call(hGraphExec);
  ending.finish(status);
  if (status == CUDA_SUCCESS || status == CUDA_ERROR_DEINITIALIZED) end.finish();
  if (status == CUDA_SUCCESS) note_executable_destroyed(handle(hGraphExec));
  return status;
}

CUresult cuGraphExecUpdate(decltype(&::cuGraphExecUpdate) call, CUgraphExec hGraphExec, CUgraph hGraph,
                           CUgraphNode* hErrorNode_out, CUgraphExecUpdateResult* updateResult_out) {
  CUresult status = call(hGraphExec, hGraph, hErrorNode_out, updateResult_out);
  note_updated(hGraphExec, hGraph, status);
  return status;
}
CUresult cuGraphExecUpdate_v2(decltype(&::cuGraphExecUpdate_v2) call, CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo* resultInfo) {
  CUresult status = call(hGraphExec, hGraph, resultInfo);
  note_updated(hGraphExec, hGraph, status);
  return status;
}

CUresult cuGraphUpload(decltype(&::cuGraphUpload) call, CUgraphExec hGraphExec, CUstream hStream) {
  return upload(Api::cuGraphUpload, call, hGraphExec, hStream);
}
CUresult cuGraphUpload_ptsz(decltype(&::cuGraphUpload_ptsz) call, CUgraphExec hGraphExec, CUstream hStream) {
  return upload(Api::cuGraphUpload_ptsz, call, hGraphExec, hStream);
}

CUresult cuGraphLaunch(decltype(&::cuGraphLaunch) call, CUgraphExec hGraphExec, CUstream hStream) {
  return launch(Api::cuGraphLaunch, call, hGraphExec, hStream);
}
CUresult cuGraphLaunch_ptsz(decltype(&::cuGraphLaunch_ptsz) call, CUgraphExec hGraphExec, CUstream hStream) {
  return launch(Api::cuGraphLaunch_ptsz, call, hGraphExec, hStream);
}

}  // namespace custom
}  // namespace culprit
