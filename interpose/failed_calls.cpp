#include "interpose/failed_calls.h"

#include "interpose/process.h"

namespace culprit {
namespace {

// Not ready is an answer, and an unloading driver refuses everything.
bool is_failure(CUresult status) {
  return status != CUDA_SUCCESS && status != CUDA_ERROR_NOT_READY && status != CUDA_ERROR_DEINITIALIZED;
}

}  // namespace

void note_failed_call(Api api, CUresult status, std::uint64_t bytes) {
  if (!is_failure(status) || process_if_recording() == nullptr) return;
  Recording recording;
  Process* process = recording.process();
  if (process == nullptr) return;
  format::FailedCallRecord call = {};
  call.stack = current_stack(*process);
  call.code = static_cast<std::int32_t>(status);
  call.api = static_cast<std::uint16_t>(api);
  call.first_ns = call.last_ns = now_ns(*process);
  call.bytes = bytes;
  call.thread = thread_state.index;
  if (thread_state.injected) call.flags = format::kFailedInjected;
  if (process->failed_calls.add(call, process->dump) == 0) add_counter(process->dump.header()->dropped_others, 1);
}

}  // namespace culprit
