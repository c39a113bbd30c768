// The second back end of `culprit attach`: callbacks of NVIDIA's CUPTI, for processes whose calls the redirection does
// not reach. Feeds the same recorder as the hooks. Only one tool in a process can use CUPTI, so no profiler works until
// the detach.
#pragma once

#include <cstdint>

namespace culprit {

enum class CuptiEnd { kDone, kNone, kTaken, kFailed };

// Begins to observe memory, context and stream calls, with the process's libcupti if loaded, else with the one at
// `path` (empty = none). kFailed: `error` is CUPTI's code. Do not call inside a driver call. Not thread-safe.
CuptiEnd observe_calls(const char* path, std::int32_t* error);

// Ends the observation, and releases CUPTI for other tools.
void stop_observing_calls();

}  // namespace culprit
