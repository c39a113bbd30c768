#include "tests/simcuda/driver/streams.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/capture.h"
#include "tests/simcuda/driver/own_memory.h"
#include "tests/simcuda/driver/pools.h"

namespace simcuda {
namespace {

Stream* make_stream(DriverState& state, Context& context) {
  Stream* stream = state.add(new Stream(&context));
  stream->id = state.next_id++;
  return stream;
}

CUresult create_stream(Call& call, CUstream* out, unsigned flags, int priority, Context& context) {
  if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult status = take_stream(call.state(), context)) return status;
  Stream* stream = make_stream(call.state(), context);
  stream->takes_memory = true;
  stream->flags = flags;
  stream->priority = priority;
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult synchronize(Call& call, Stream& stream) {
  if (stream.capture != nullptr) {
    stream.capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  synchronize_pools(call.state(), stream.context->device);
  return CUDA_SUCCESS;
}

}  // namespace

void Stream::release(DriverState& state) {
  if (takes_memory) return_stream(state, *context);
  if (capture == nullptr) return;
  std::shared_ptr<Capture> ended = capture;
  Graph* graph = ended->owns_graph ? ended->graph : nullptr;
  finish_capture(state, ended);
  if (graph != nullptr) state.destroy(graph);
}

Stream* find_stream(DriverState& state, Context& context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    if (context.legacy_stream == nullptr) {
      Stream* stream = make_stream(state, context);
      stream->legacy = true;
      context.legacy_stream = stream;
    }
    return static_cast<Stream*>(context.legacy_stream);
  }
  if (handle == CU_STREAM_PER_THREAD) {
    Object*& stream = context.per_thread_streams[pthread_self()];
    if (stream == nullptr) stream = make_stream(state, context);
    return static_cast<Stream*>(stream);
  }
  return state.find<Stream>(handle);
}

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

}  // namespace simcuda

using simcuda::Call;
using simcuda::Context;
using simcuda::Event;
using simcuda::Stream;

// Declares `stream`, or returns CUDA_ERROR_INVALID_HANDLE.
#define SIM_STREAM(handle)                                                     \
  Stream* stream = simcuda::find_stream(call.state(), call.context(), handle); \
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE

SIM(cuStreamCreate)(CUstream* out, unsigned flags) {
  SIM_CALL(kContext);
  return simcuda::create_stream(call, out, flags, 0, call.context());
}

SIM(cuStreamCreateWithPriority)(CUstream* out, unsigned flags, int priority) {
  SIM_CALL(kContext);
  return simcuda::create_stream(call, out, flags, std::clamp(priority, -5, 0), call.context());
}

SIM(cuGreenCtxStreamCreate)(CUstream* out, CUgreenCtx handle, unsigned flags, int priority) {
  SIM_CALL(kInit);
  for (simcuda::Object* object : call.state().objects) {
    if (object->type != simcuda::ObjectType::kContext) continue;
    auto& context = *static_cast<Context*>(object);
    if (handle != nullptr && context.green == reinterpret_cast<simcuda::Object*>(handle)) {
      return simcuda::create_stream(call, out, flags, std::clamp(priority, -5, 0), context);
    }
  }
  return CUDA_ERROR_INVALID_HANDLE;
}

SIM(cuStreamDestroy_v2)(CUstream handle) {
  SIM_CALL(kInit);
  Stream* stream = call.state().find<Stream>(handle);
  if (stream == nullptr || stream->legacy) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(stream);
  return CUDA_SUCCESS;
}

SIM(cuStreamSynchronize)(CUstream handle) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  return simcuda::synchronize(call, *stream);
}

SIM(cuStreamQuery)(CUstream handle) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  return simcuda::synchronize(call, *stream);
}

SIM(cuStreamGetFlags)(CUstream handle, unsigned* flags) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

SIM(cuStreamGetPriority)(CUstream handle, int* priority) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SIM(cuStreamGetId)(CUstream handle, unsigned long long* id) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

SIM(cuStreamGetDevice)(CUstream handle, CUdevice* device) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device;
  return CUDA_SUCCESS;
}

SIM(cuStreamGetCtx)(CUstream handle, CUcontext* out) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

SIM(cuStreamGetCtx_v2)(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(stream->context);
  if (green != nullptr) *green = reinterpret_cast<CUgreenCtx>(stream->context->green);
  return CUDA_SUCCESS;
}

SIM(cuStreamGetGreenCtx)(CUstream handle, CUgreenCtx* out) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgreenCtx>(stream->context->green);
  return CUDA_SUCCESS;
}

SIM(cuStreamWaitEvent)(CUstream handle, CUevent event_handle, unsigned) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  Event* event = call.state().find<Event>(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture == nullptr || event->capture->graph == nullptr) return CUDA_SUCCESS;
  if (stream->capture != nullptr && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  // Waiting for captured work pulls the stream into the capture.
  if (stream->capture == nullptr) {
    stream->capture = event->capture;
    stream->capture->joined.push_back(stream);
  }
  for (simcuda::GraphNode* node : event->capture_nodes) stream->capture_tail.push_back(node);
  return CUDA_SUCCESS;
}

SIM(cuStreamAttachMemAsync)(CUstream handle, CUdeviceptr address, std::size_t, unsigned) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  if (!call.state().managed_space->contains(address)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

SIM(cuStreamCopyAttributes)(CUstream destination, CUstream source) {
  SIM_CALL(kContext);
  bool valid = simcuda::find_stream(call.state(), call.context(), destination) != nullptr &&
               simcuda::find_stream(call.state(), call.context(), source) != nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Host functions run at once, in the calling thread: everything before them is done, and tests stay deterministic. They
// run without the driver's lock.
SIM(cuLaunchHostFunc)(CUstream handle, CUhostFn function, void* user_data) {
  {
    SIM_CALL(kContext);
    SIM_STREAM(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != nullptr) {
      simcuda::GraphNode* node = simcuda::capture_node(call.state(), *stream, CU_GRAPH_NODE_TYPE_HOST);
      node->work.host = {function, user_data};
      return CUDA_SUCCESS;
    }
  }
  function(user_data);
  return CUDA_SUCCESS;
}

SIM(cuStreamAddCallback)(CUstream handle, CUstreamCallback callback, void* user_data, unsigned) {
  {
    SIM_CALL(kContext);
    SIM_STREAM(handle);
    if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  callback(handle, CUDA_SUCCESS, user_data);
  return CUDA_SUCCESS;
}

SIM(cuEventCreate)(CUevent* out, unsigned flags) {
  SIM_CALL(kContext);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Event* event = call.state().add(new Event(&call.context()));
  event->flags = flags;
  *out = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

SIM(cuEventDestroy_v2)(CUevent handle) {
  SIM_CALL(kInit);
  Event* event = call.state().find<Event>(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().destroy(event);
  return CUDA_SUCCESS;
}

SIM(cuEventRecordWithFlags)(CUevent event_handle, CUstream handle, unsigned flags) {
  SIM_CALL(kContext);
  SIM_STREAM(handle);
  Event* event = call.state().find<Event>(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) {
      simcuda::capture_node(call.state(), *stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD)->work.event = event_handle;
    } else {
      event->capture = stream->capture;
      event->capture_nodes = stream->capture_tail;
    }
    return CUDA_SUCCESS;
  }
  event->capture = nullptr;
  event->recorded = true;
  event->time_ns = simcuda::now_ns();
  return CUDA_SUCCESS;
}

SIM(cuEventRecord)(CUevent event, CUstream stream) { return sim_cuEventRecordWithFlags(event, stream, 0); }

SIM(cuEventQuery)(CUevent handle) {
  SIM_CALL(kInit);
  Event* event = call.state().find<Event>(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return event->capture != nullptr && event->capture->graph != nullptr ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

SIM(cuEventSynchronize)(CUevent handle) {
  SIM_CALL(kInit);
  Event* event = call.state().find<Event>(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr && event->capture->graph != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (event->recorded) simcuda::synchronize_pools(call.state(), event->context->device);
  return CUDA_SUCCESS;
}

SIM(cuEventElapsedTime_v2)(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  SIM_CALL(kInit);
  Event* start = call.state().find<Event>(start_handle);
  Event* end = call.state().find<Event>(end_handle);
  if (start == nullptr || end == nullptr || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *milliseconds = static_cast<float>(static_cast<double>(end->time_ns) - static_cast<double>(start->time_ns)) / 1e6f;
  return CUDA_SUCCESS;
}
