// Calls that failed: kept, because a function that sees one may return early and leave its allocations behind.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/api.h"

namespace culprit {

// The failure of a call that frees nothing (those are ErrorRecords). Nothing is noted in a process that does not record
// yet: a program that only asks whether there is a GPU leaves no dump. Thread-safe, keeps errno.
void note_failed_call(Api api, CUresult status, std::uint64_t bytes);

// What every hook that is followed for its result does last. `bytes`: how much memory was asked for, 0 = none. On
// success this is a comparison.
inline void note_result(Api api, CUresult status, std::uint64_t bytes) {
  if (__builtin_expect(status != CUDA_SUCCESS, 0)) note_failed_call(api, status, bytes);
}

}  // namespace culprit
