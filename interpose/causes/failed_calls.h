// Calls that failed: kept, because a function that sees one may return early and leave its allocations behind.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/process/thread_state.h"

namespace culprit {

// The slow part of note_result(): a call failed, now or shortly before. Before recording has started, only an
// allocation that fails, or a call that fails for want of memory, starts it: a program that only asks whether there is
// a GPU leaves no dump. Thread-safe, keeps errno.
void note_followed_call(Api api, CUresult status, std::uint64_t bytes);

// The last step of every hook whose failures are recorded here; failed frees are ErrorRecords instead. `bytes`: the
// requested size, 0 = none. On success this is one comparison, except in the first calls after a failure.
inline void note_result(Api api, CUresult status, std::uint64_t bytes) {
  if (CULPRIT_UNLIKELY(status != CUDA_SUCCESS || thread_state.failures.calls_to_watch != 0))
    note_followed_call(api, status, bytes);
}

// The last step of all other hooks, except those that end something: of their failures only a want of memory is
// recorded. A launch, an instantiation or a look-up of code may need memory, too; `bytes` is then not known.
inline void note_want_of_memory(Api api, CUresult status) {
  if (CULPRIT_UNLIKELY(status == CUDA_ERROR_OUT_OF_MEMORY)) note_followed_call(api, status, 0);
}

}  // namespace culprit
