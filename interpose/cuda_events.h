// The short way for CUDA events (cuEventCreate, cuEventDestroy), of which a pair costs the driver 230 to 300 ns (H200,
// driver 580) where memory costs it 600: what is usual is one stretch of code without branches that are taken, because
// what it costs is mostly the bytes of code that it runs. Whatever is not as usual is left, before anything was
// changed, to the long way that everything else takes (events.h).
//
// All of it is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/api.h"
#include "interpose/dump_format.h"
#include "interpose/placement.h"

namespace culprit {

// An event was made.
CULPRIT_HOT void note_cuda_event_made(Api api, std::uint64_t handle);

// Before the driver destroys an event: notes its end when the calling thread has it to itself, and returns its record;
// else 0, and the long way has to be taken.
CULPRIT_HOT format::Ref end_cuda_event(std::uint64_t handle);

// The driver refused to destroy it: it is as LiveTable::take() returns it. 0 when that comes too late.
CULPRIT_COLD format::Ref take_back_cuda_event(format::Ref record, std::uint64_t handle);

}  // namespace culprit
