// Stream-ordered memory: the hooks that programs call most often are one function each, without a call in between.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/events/events.h"
#include "interpose/events/graph_memory.h"
#include "interpose/hooks/hooks.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/process/process.h"

namespace culprit {

// The graph that a call on this stream goes into, by the driver; nullptr: the stream is not being captured.
CULPRIT_COLD CUgraph ask_captured_graph(CUstream stream);

__attribute__((always_inline)) inline bool are_captures() {
  Process* process = __atomic_load_n(&quick_process, __ATOMIC_ACQUIRE);
  if (CULPRIT_UNLIKELY(process == nullptr)) process = process_if_recording();
  // In a fork child that does not record yet this Process is wiped.
  return process != nullptr && CULPRIT_UNLIKELY(has_captures(*process));
}

// Records memory that was allocated on this stream: of a pool (its handle, or 0), by a graph, or in the general way.
void note_stream_ordered(Api api, CUdeviceptr memory, std::size_t bytes, std::uint64_t pool, CUstream stream);

template <typename Call>
__attribute__((always_inline)) inline CUresult allocate_on_stream(Api api, Call call, CUdeviceptr* dptr,
                                                                  std::size_t bytes, std::uint64_t pool,
                                                                  CUstream stream) {
  const CUresult status = call();
  if (CULPRIT_LIKELY(status == CUDA_SUCCESS) && CULPRIT_LIKELY(dptr != nullptr)) {
    if (pool != 0 || are_captures() ||
        (CULPRIT_UNLIKELY(bytes > kHeldBackBytes || !note_memory_shortly(api, *dptr, bytes, stream)) &&
         !note_large_memory_shortly(api, *dptr, bytes, stream)))
      note_stream_ordered(api, *dptr, bytes, pool, stream);
  }
  note_result(api, status, bytes);
  return status;
}

// A free while streams are being captured: perhaps it becomes a node of a graph.
template <typename Call>
CULPRIT_COLD CUresult free_while_capturing(Api api, Call call, CUdeviceptr dptr, CUstream stream) {
  const CUgraph graph = ask_captured_graph(stream);
  Ending ending(api, format::Kind::kStreamOrdered, dptr);
  CUresult status = call(dptr, stream);
  if (graph == nullptr) {
    ending.finish(status);
  } else {
    finish_free_node(ending, status, handle(graph), true);
  }
  return status;
}

template <typename Call>
__attribute__((always_inline)) inline CUresult free_on_stream(Api api, Call call, CUdeviceptr dptr, CUstream stream) {
  if (CULPRIT_UNLIKELY(are_captures())) return free_while_capturing(api, call, dptr, stream);
  Ending ending(Ending::Short::kTried, api, dptr);
  CUresult status = call(dptr, stream);
  ending.finish_short(status);
  return status;
}

namespace custom {

__attribute__((always_inline)) inline CUresult cuMemAllocAsync(decltype(&::cuMemAllocAsync) call, CUdeviceptr* dptr,
                                                               size_t bytesize, CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocAsync, [&] { return call(dptr, bytesize, hStream); }, dptr, bytesize, 0, hStream);
}
__attribute__((always_inline)) inline CUresult cuMemAllocAsync_ptsz(decltype(&::cuMemAllocAsync_ptsz) call,
                                                                    CUdeviceptr* dptr, size_t bytesize,
                                                                    CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocAsync_ptsz, [&] { return call(dptr, bytesize, hStream); }, dptr, bytesize, 0, hStream);
}
__attribute__((always_inline)) inline CUresult cuMemAllocFromPoolAsync(decltype(&::cuMemAllocFromPoolAsync) call,
                                                                       CUdeviceptr* dptr, size_t bytesize,
                                                                       CUmemoryPool pool, CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocFromPoolAsync, [&] { return call(dptr, bytesize, pool, hStream); }, dptr, bytesize, handle(pool),
      hStream);
}
__attribute__((always_inline)) inline CUresult cuMemAllocFromPoolAsync_ptsz(
    decltype(&::cuMemAllocFromPoolAsync_ptsz) call, CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
    CUstream hStream) {
  return allocate_on_stream(
      Api::cuMemAllocFromPoolAsync_ptsz, [&] { return call(dptr, bytesize, pool, hStream); }, dptr, bytesize,
      handle(pool), hStream);
}
__attribute__((always_inline)) inline CUresult cuMemFreeAsync(decltype(&::cuMemFreeAsync) call, CUdeviceptr dptr,
                                                              CUstream hStream) {
  return free_on_stream(Api::cuMemFreeAsync, call, dptr, hStream);
}
__attribute__((always_inline)) inline CUresult cuMemFreeAsync_ptsz(decltype(&::cuMemFreeAsync_ptsz) call,
                                                                   CUdeviceptr dptr, CUstream hStream) {
  return free_on_stream(Api::cuMemFreeAsync_ptsz, call, dptr, hStream);
}

}  // namespace custom

}  // namespace culprit
