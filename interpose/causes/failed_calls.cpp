#include "interpose/causes/failed_calls.h"

#include "interpose/call_stack/current_stack.h"
#include "interpose/call_stack/view_requests.h"
#include "interpose/control/control_state.h"
#include "interpose/owners/function_tables.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {
namespace {

// CUDA_ERROR_NOT_READY is a normal result, and an unloading driver refuses everything.
bool is_failure(CUresult status) {
  return status != CUDA_SUCCESS && status != CUDA_ERROR_NOT_READY && status != CUDA_ERROR_DEINITIALIZED;
}

// How many calls of the thread may lie between a failure and its retry.
constexpr std::uint8_t kWatched = 64;

void note_failure(Process& process, Api api, CUresult status, std::uint64_t bytes) {
  if ((process.mode.load(std::memory_order_relaxed) & kModeOff) != 0) return;
  format::FailedCallRecord call = {};
  call.stack = current_stack(process);
  call.code = static_cast<std::int32_t>(status);
  call.api = static_cast<std::uint16_t>(api);
  call.first_ns = call.last_ns = now_ns(process);
  call.bytes = bytes;
  call.thread = thread_state.index;
  if (thread_state.failures.injected) call.flags = format::kFailedInjected;
  if (status == CUDA_ERROR_OUT_OF_MEMORY && !thread_state.failures.injected) {
    breakdowns_of(process).note_out_of_memory(process, api, call.stack, bytes);
    request_view(process, kViewRanOut);
  }
  format::Ref ref = process.tables.failed_calls.add(call, process.dump);
  if (ref == 0) {
    add_counter(process.dump.header()->dropped_others, 1);
    return;
  }
  if (thread_state.paths.all == nullptr || thread_state.memory == nullptr) return;
  thread_state.memory->failures.failed({process.tables.evidence, process.dump}, *thread_state.paths.all,
                                       thread_state.paths.current, ref, find_function);
  thread_state.failures.calls_to_watch = kWatched;
}

void note_success(Process& process, Api api, std::uint64_t bytes) {
  if (thread_state.paths.all == nullptr || thread_state.memory == nullptr) return;
  std::uint32_t before = thread_state.paths.all->clock();
  const ThreadPaths::Path path = current_path(process);
  PendingFailures& failures = thread_state.memory->failures;
  failures.succeeded({process.tables.evidence, process.dump}, *thread_state.paths.all, path,
                     static_cast<std::uint16_t>(api), bytes, before, find_function);
  if (--thread_state.failures.calls_to_watch == 0) failures.forget();
}

}  // namespace

void note_followed_call(Api api, CUresult status, std::uint64_t bytes) {
  if (status != CUDA_SUCCESS && !is_failure(status)) return;
  const bool failed_allocation = status != CUDA_SUCCESS && (bytes != 0 || status == CUDA_ERROR_OUT_OF_MEMORY);
  if (!failed_allocation && process_if_recording() == nullptr) return;
  record_on_own_stack([&](Process& process) {
    if (status != CUDA_SUCCESS) {
      note_failure(process, api, status, bytes);
    } else if (thread_state.failures.calls_to_watch != 0) {  // a fork child has no failures
      note_success(process, api, bytes);
    }
  });
}

}  // namespace culprit
