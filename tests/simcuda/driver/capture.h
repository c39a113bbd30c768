// Stream capture: work that is submitted to a capturing stream becomes nodes of a graph.
#pragma once

#include "tests/simcuda/driver/graphs.h"
#include "tests/simcuda/driver/streams.h"

namespace simcuda {

struct Capture {
  std::uint64_t id = 0;
  Graph* graph = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  Stream* origin = nullptr;
  pthread_t thread{};
  std::vector<Stream*> joined;
  bool owns_graph = true;  // false with cuStreamBeginCaptureToGraph
};

// Appends a node to the graph that `stream` captures.
GraphNode* capture_node(DriverState& state, Stream& stream, CUgraphNodeType type);
// cuMemAllocAsync and cuMemFreeAsync under capture.
CUresult capture_allocation(DriverState& state, Stream& stream, std::size_t bytes, CUdeviceptr* out);
CUresult capture_free(DriverState& state, Stream& stream, CUdeviceptr address);
// For a call that is not allowed during a capture (cuMemAlloc, synchronizations). Returns the error, after invalidating
// the capture, or CUDA_SUCCESS.
CUresult check_capture_safe(DriverState& state, CUstreamCaptureMode thread_mode);
// Ends a capture in any state; the graph then belongs to the caller.
void finish_capture(DriverState& state, const std::shared_ptr<Capture>& capture);

}  // namespace simcuda
