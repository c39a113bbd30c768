// Callbacks of NVIDIA's CUPTI for the calls of the driver. Two use them: `culprit attach --backend cupti`, for
// processes whose calls the redirection does not reach, feeds the same recorder as the hooks (observe_calls); the audit
// compares them with what the hooks recorded (audit.h). Only one tool in a process can use CUPTI, so no profiler works
// meanwhile.
#pragma once

#include <cstdint>

namespace culprit {

enum class CuptiEnd { kDone, kNone, kTaken, kFailed };

struct CuptiCall {
  std::uint32_t id;  // CUPTI's number of the function
  bool begins;       // the call begins; else it ends
  const void* parameters;
  const int* result;  // the driver's, when the call ends; may be null
};

constexpr std::uint32_t kMostCuptiIds = 2048;

// Reports calls of the functions for which wants(id, symbol) is true to `listener`. With the process's libcupti if
// loaded, else with the first of the libraries at `paths` (a list that ends with nullptr) that can be loaded. kFailed:
// `error` is CUPTI's code. Do not call inside a driver call. Not thread-safe.
CuptiEnd listen_to_calls(const char* const* paths, bool (*wants)(std::uint32_t id, const char* symbol),
                         void (*listener)(const CuptiCall& call), std::int32_t* error);

// Ends it. `release`: CUPTI goes back to the state before its first use, as far as it can.
void stop_listening(bool release);

// A function of a libcupti in this process that listen_to_calls() did not load itself, else of that one; 0 = none.
std::uint64_t cupti_function(const char* name);

// Begins to observe memory, context and stream calls, with the process's libcupti if loaded, else with the one at
// `path` (empty = none). kFailed: `error` is CUPTI's code. Do not call inside a driver call. Not thread-safe.
CuptiEnd observe_calls(const char* path, std::int32_t* error);

// Ends the observation, and releases CUPTI for other tools.
void stop_observing_calls();

}  // namespace culprit
