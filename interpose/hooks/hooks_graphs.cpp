// Stream-ordered memory, stream capture, graphs and the memory that graphs make.
//
// A graph's memory node has an address from the moment it is added; the address has memory only after a launch, until a
// free node or a cuMemFree frees it. Its record is kept from the start and marked kFlagNotPhysical (0 bytes) until a
// launch; after a free from outside the graph it returns to that state, because the next launch allocates it again.
#include "interpose/hooks/hooks.h"
#include "interpose/recorder/process.h"

namespace culprit {
namespace {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

CULPRIT_COLD CUgraph ask_captured_graph(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  if (driver().cuStreamGetCaptureInfo_v2 == nullptr ||
      driver().cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr) != CUDA_SUCCESS) {
    return nullptr;
  }
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : nullptr;
}

// The graph that a call on this stream goes into, nullptr when the stream is not being captured.
__attribute__((always_inline)) inline CUgraph captured_graph(CUstream stream) {
  Process* process = __atomic_load_n(&quick_process, __ATOMIC_ACQUIRE);
  if (process == nullptr) process = process_if_recording();
  // In a fork child that does not record yet this Process is wiped.
  if (process == nullptr || process->hooks.captures.load(std::memory_order_relaxed) == 0) return nullptr;
  return ask_captured_graph(stream);
}

void note_graph_memory(Api api, CUgraph graph, CUdeviceptr address, std::size_t bytes, const Where& where) {
  note_made({api, Kind::kGraphMemory, address, bytes, reinterpret_cast<std::uint64_t>(graph), where,
             format::kFlagNotPhysical});
}

template <typename Call>
__attribute__((always_inline)) inline CUresult allocate_on_stream(Api api, Call call, CUdeviceptr* dptr,
                                                                  std::size_t bytes, std::uint64_t pool,
                                                                  CUstream stream) {
  CUresult status = call();
  if (status == CUDA_SUCCESS && dptr != nullptr) {
    if (CUgraph graph = captured_graph(stream)) {
      note_graph_memory(api, graph, *dptr, bytes, on_stream(stream));
    } else {
      note_made({api, Kind::kStreamOrdered, *dptr, bytes, pool, on_stream(stream)});
    }
  }
  note_result(api, status, bytes);
  return status;
}

template <typename Call>
__attribute__((always_inline)) inline CUresult free_on_stream(Api api, Call call, CUdeviceptr dptr, CUstream stream) {
  Ending ending(api, Kind::kStreamOrdered, dptr);
  CUresult status = call(dptr, stream);
  ending.finish(status);
  return status;
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
  if (status != CUDA_SUCCESS || graph == nullptr || *graph == nullptr) return status;
  bool known = false;  // captured into a graph that existed before
  record_on_own_stack([&](Process& recording) {
    known = recording.tables.live.find(space_of(Kind::kGraph), handle(*graph), format::kNoDevice, recording.dump) != 0;
  });
  if (!known) note_made({api, Kind::kGraph, handle(*graph), 0, 0});
  return status;
}

// The graph (or executable graph) `owner` was destroyed. Its memory passes to `heir`, if there is one. Otherwise no
// launch will allocate it again: records without physical memory are dropped, others stay until they are freed.
void leave_memory(std::uint64_t owner, std::uint64_t heir) {
  record_on_own_stack([&](Process& process) {
    process.tables.live.sweep(process.dump, [&](AllocationRecord& record, Ref, EndedBy*) {
      if (record.kind != Kind::kGraphMemory || record.extra != owner) return false;
      record.extra = heir;
      if (heir != 0 || (record.flags & format::kFlagNotPhysical) == 0) return false;
      process.hooks.graph_memory.fetch_sub(1, std::memory_order_relaxed);
      process.hooks.unlaunched_memory.fetch_sub(1, std::memory_order_relaxed);
      count_gone(process, record.thread);
      return true;
    });
  });
}

bool has_graph_memory() {
  Process* process = process_if_recording();
  return process != nullptr && process->hooks.graph_memory.load(std::memory_order_relaxed) > 0;
}

// An executable graph that was made from `graph`; it keeps the graph's memory nodes in use after the graph is
// destroyed.
std::uint64_t executable_of(std::uint64_t graph) {
  std::uint64_t found = 0;
  record_on_own_stack([&](Process& process) {
    process.tables.live.sweep(process.dump, [&](AllocationRecord& record, Ref, EndedBy*) {
      if (record.kind == Kind::kGraphExec && record.extra == graph && found == 0) {
        found = record.handle;
        record.extra = record.handle;
      }
      return false;
    });
  });
  return found;
}

void note_launch(CUgraphExec exec) {
  record_on_own_stack([&](Process& process) {
    Ref ref = process.tables.live.find(space_of(Kind::kGraphExec), handle(exec), format::kNoDevice, process.dump);
    if (ref == 0) return;
    std::uint64_t owner = process.dump.at<AllocationRecord>(ref)->extra;
    process.tables.live.sweep(process.dump, [&](AllocationRecord& record, Ref, EndedBy*) {
      bool waiting = record.kind == Kind::kGraphMemory && (record.flags & format::kFlagNotPhysical) != 0;
      if (!waiting || (record.extra != owner && record.extra != handle(exec))) return false;
      record.flags &= static_cast<std::uint8_t>(~format::kFlagNotPhysical);
      process.hooks.unlaunched_memory.fetch_sub(1, std::memory_order_relaxed);
      change_live_bytes(process, record.device, static_cast<std::int64_t>(record.bytes));
      return false;
    });
  });
}

template <typename Call>
CUresult launch(Call call, CUgraphExec exec, CUstream stream) {
  CUresult status = call(exec, stream);
  Process* process = process_if_recording();
  if (status == CUDA_SUCCESS && process != nullptr &&
      process->hooks.unlaunched_memory.load(std::memory_order_relaxed) > 0)
    note_launch(exec);
  return status;
}

template <typename Call>
CUresult add_node(Api api, Call call, CUgraph graph, CUgraphNodeParams* params) {
  if (params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    Ending ending(api, Kind::kGraphMemory, params->free.dptr);
    CUresult status = call();
    ending.finish(status);
    return status;
  }
  CUresult status = call();
  if (status == CUDA_SUCCESS && params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    note_graph_memory(api, graph, params->alloc.dptr, params->alloc.bytesize, pool_place(&params->alloc.poolProps));
  }
  return status;
}

}  // namespace

namespace custom {

CULPRIT_HOT CUresult cuMemAllocAsync(decltype(&::cuMemAllocAsync) call, CUdeviceptr* dptr, size_t bytesize,
                                     CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocAsync, [&] { return call(dptr, bytesize, hStream); }, dptr, bytesize, 0, hStream);
}
CULPRIT_HOT CUresult cuMemAllocAsync_ptsz(decltype(&::cuMemAllocAsync_ptsz) call, CUdeviceptr* dptr, size_t bytesize,
                                          CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocAsync_ptsz, [&] { return call(dptr, bytesize, hStream); }, dptr, bytesize, 0, hStream);
}
CULPRIT_HOT CUresult cuMemAllocFromPoolAsync(decltype(&::cuMemAllocFromPoolAsync) call, CUdeviceptr* dptr,
                                             size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocFromPoolAsync, [&] { return call(dptr, bytesize, pool, hStream); }, dptr, bytesize, handle(pool),
      hStream);
}
CULPRIT_HOT CUresult cuMemAllocFromPoolAsync_ptsz(decltype(&::cuMemAllocFromPoolAsync_ptsz) call, CUdeviceptr* dptr,
                                                  size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocFromPoolAsync_ptsz, [&] { return call(dptr, bytesize, pool, hStream); }, dptr, bytesize,
      handle(pool), hStream);
}
CULPRIT_HOT CUresult cuMemFreeAsync(decltype(&::cuMemFreeAsync) call, CUdeviceptr dptr, CUstream hStream) {
  return free_on_stream(Api::cuMemFreeAsync, call, dptr, hStream);
}
CULPRIT_HOT CUresult cuMemFreeAsync_ptsz(decltype(&::cuMemFreeAsync_ptsz) call, CUdeviceptr dptr, CUstream hStream) {
  return free_on_stream(Api::cuMemFreeAsync_ptsz, call, dptr, hStream);
}

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
    note_graph_memory(Api::cuGraphAddMemAllocNode, hGraph, nodeParams->dptr, nodeParams->bytesize,
                      pool_place(&nodeParams->poolProps));
  }
  note_result(Api::cuGraphAddMemAllocNode, status, nodeParams == nullptr ? 0 : nodeParams->bytesize);
  return status;
}

CUresult cuGraphAddMemFreeNode(decltype(&::cuGraphAddMemFreeNode) call, CUgraphNode* phGraphNode, CUgraph hGraph,
                               const CUgraphNode* dependencies, size_t numDependencies, CUdeviceptr dptr) {
  Ending ending(Api::cuGraphAddMemFreeNode, Kind::kGraphMemory, dptr);
  CUresult status = call(phGraphNode, hGraph, dependencies, numDependencies, dptr);
  ending.finish(status);
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
  if (status == CUDA_SUCCESS && has_graph_memory()) leave_memory(handle(hGraph), executable_of(handle(hGraph)));
  return status;
}

CUresult cuGraphExecDestroy(decltype(&::cuGraphExecDestroy) call, CUgraphExec hGraphExec) {
  Ending ending(Api::cuGraphExecDestroy, Kind::kGraphExec, handle(hGraphExec));
  CUresult status = call(hGraphExec);
  ending.finish(status);
  if (status == CUDA_SUCCESS && has_graph_memory()) leave_memory(handle(hGraphExec), 0);
  return status;
}

CUresult cuGraphLaunch(decltype(&::cuGraphLaunch) call, CUgraphExec hGraphExec, CUstream hStream) {
  return launch(call, hGraphExec, hStream);
}
CUresult cuGraphLaunch_ptsz(decltype(&::cuGraphLaunch_ptsz) call, CUgraphExec hGraphExec, CUstream hStream) {
  return launch(call, hGraphExec, hStream);
}

}  // namespace custom
}  // namespace culprit
