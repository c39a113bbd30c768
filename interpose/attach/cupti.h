// The second back end of `culprit attach`: callbacks of NVIDIA's CUPTI, for processes whose calls the redirection does
// not reach. Feeds the same recorder as the hooks. Only one tool in a process can have CUPTI, so nobody's profiler
// works meanwhile; afterwards it does.
#pragma once

#include "interpose/driver/api.h"

#include <cuda.h>

#include <cstdint>

namespace culprit {

// What a row of the table does when CUPTI tells of a call: `parameters` is the call's parameters as a struct.
struct CallObserver {
  void (*enter)(const void* parameters);                  // nullptr = nothing
  void (*exit)(const void* parameters, CUresult status);  // nullptr = the row is not observed
};
CallObserver call_observer(Api api);

enum class CuptiEnd { kDone, kNone, kTaken, kFailed };

// Begins to observe memory, context and stream calls, with the libcupti that the process has, else with the one at
// `path` (empty = none). kFailed: `error` is CUPTI's code. Not from inside the driver; not thread-safe.
CuptiEnd observe_calls(const char* path, std::int32_t* error);

// Ends that, and gives CUPTI free for others.
void stop_observing_calls();

}  // namespace culprit
