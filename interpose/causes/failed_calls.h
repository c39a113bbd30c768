// Calls that failed: kept, because a function that sees one may return early and leave its allocations behind.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/driver/api.h"
#include "interpose/recorder/thread_state.h"

namespace culprit {

// note_result() when something failed, now or shortly before. Nothing is noted in a process that does not record yet: a
// program that only asks whether there is a GPU leaves no dump. Thread-safe, keeps errno.
void note_followed_call(Api api, CUresult status, std::uint64_t bytes);

// What every hook that is followed for its result does last; not those that free (their failures are ErrorRecords).
// `bytes`: how much memory was asked for, 0 = none. On success this is a comparison, but for the next calls after a
// failure.
inline void note_result(Api api, CUresult status, std::uint64_t bytes) {
  if (CULPRIT_UNLIKELY(status != CUDA_SUCCESS || thread_state.calls_to_watch != 0))
    note_followed_call(api, status, bytes);
}

}  // namespace culprit
