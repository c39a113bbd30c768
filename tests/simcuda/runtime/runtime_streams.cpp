// Streams, events and stream capture.
#include "tests/simcuda/runtime/runtime.h"

using simcudart::done;
using simcudart::failed;
using simcudart::legacy;

RUNTIME_API(cudaStreamCreate)(cudaStream_t* out) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuStreamCreate(out, CU_STREAM_DEFAULT));
}

RUNTIME_API(cudaStreamCreateWithFlags)(cudaStream_t* out, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuStreamCreate(out, flags));
}

RUNTIME_API(cudaStreamCreateWithPriority)(cudaStream_t* out, unsigned flags, int priority) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuStreamCreateWithPriority(out, flags, priority));
}

RUNTIME_API(cudaStreamDestroy)(cudaStream_t stream) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuStreamDestroy(stream));
}

RUNTIME_STREAM_API(cudaStreamSynchronize, cudaStreamSynchronize_ptsz, (cudaStream_t stream), (stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamSynchronize(stream));
}

RUNTIME_STREAM_API(cudaStreamQuery, cudaStreamQuery_ptsz, (cudaStream_t stream), (stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamQuery(stream));
}

RUNTIME_STREAM_API(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz,
                   (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamWaitEvent(stream, event, flags));
}

RUNTIME_STREAM_API(cudaStreamGetFlags, cudaStreamGetFlags_ptsz, (cudaStream_t stream, unsigned* flags),
                   (stream, flags)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamGetFlags(stream, flags));
}

RUNTIME_STREAM_API(cudaStreamGetPriority, cudaStreamGetPriority_ptsz, (cudaStream_t stream, int* priority),
                   (stream, priority)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamGetPriority(stream, priority));
}

RUNTIME_STREAM_API(cudaStreamGetId, cudaStreamGetId_ptsz, (cudaStream_t stream, unsigned long long* id), (stream, id)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamGetId(stream, id));
}

RUNTIME_STREAM_API(cudaStreamGetDevice, cudaStreamGetDevice_ptsz, (cudaStream_t stream, int* device),
                   (stream, device)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamGetDevice(stream, device));
}

RUNTIME_STREAM_API(cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz,
                   (cudaStream_t stream, void* pointer, std::size_t bytes, unsigned flags),
                   (stream, pointer, bytes, flags)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamAttachMemAsync(stream, simcudart::address_of(pointer), bytes, flags));
}

RUNTIME_STREAM_API(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz,
                   (cudaStream_t stream, cudaHostFn_t function, void* user_data), (stream, function, user_data)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuLaunchHostFunc(stream, function, user_data));
}

RUNTIME_STREAM_API(cudaStreamAddCallback, cudaStreamAddCallback_ptsz,
                   (cudaStream_t stream, cudaStreamCallback_t callback, void* user_data, unsigned flags),
                   (stream, callback, user_data, flags)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamAddCallback(stream, simcudart::as<CUstreamCallback>(callback), user_data, flags));
}

RUNTIME_STREAM_API(cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz,
                   (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)));
}

RUNTIME_STREAM_API(cudaStreamEndCapture, cudaStreamEndCapture_ptsz, (cudaStream_t stream, cudaGraph_t* graph),
                   (stream, graph)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamEndCapture(stream, graph));
}

RUNTIME_STREAM_API(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz,
                   (cudaStream_t stream, cudaStreamCaptureStatus* status), (stream, status)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamIsCapturing(stream, simcudart::as<CUstreamCaptureStatus*>(status)));
}

RUNTIME_STREAM_API(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz,
                   (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                    const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, std::size_t* count),
                   (stream, status, id, graph, dependencies, edges, count)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamGetCaptureInfo(stream, simcudart::as<CUstreamCaptureStatus*>(status),
                                            simcudart::as<cuuint64_t*>(id), graph, dependencies,
                                            simcudart::as<const CUgraphEdgeData**>(edges), count));
}

RUNTIME_STREAM_API(cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz,
                   (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                    std::size_t count, unsigned flags),
                   (stream, dependencies, edges, count, flags)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuStreamUpdateCaptureDependencies(stream, dependencies,
                                                       simcudart::as<const CUgraphEdgeData*>(edges), count, flags));
}

RUNTIME_API(cudaThreadExchangeStreamCaptureMode)(cudaStreamCaptureMode* mode) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuThreadExchangeStreamCaptureMode(simcudart::as<CUstreamCaptureMode*>(mode)));
}

RUNTIME_API(cudaEventCreate)(cudaEvent_t* out) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuEventCreate(out, CU_EVENT_DEFAULT));
}

RUNTIME_API(cudaEventCreateWithFlags)(cudaEvent_t* out, unsigned flags) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuEventCreate(out, flags));
}

RUNTIME_API(cudaEventDestroy)(cudaEvent_t event) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuEventDestroy(event));
}

RUNTIME_STREAM_API(cudaEventRecord, cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuEventRecord(event, stream));
}

RUNTIME_STREAM_API(cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz,
                   (cudaEvent_t event, cudaStream_t stream, unsigned flags), (event, stream, flags)) {
  RUNTIME_NEEDS_CONTEXT();
  return done(driver.cuEventRecordWithFlags(event, stream, flags));
}

RUNTIME_API(cudaEventQuery)(cudaEvent_t event) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuEventQuery(event));
}

RUNTIME_API(cudaEventSynchronize)(cudaEvent_t event) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuEventSynchronize(event));
}

RUNTIME_API(cudaEventElapsedTime)(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  RUNTIME_NEEDS_CONTEXT();
  return done(legacy.cuEventElapsedTime(milliseconds, start, end));
}
