// The order for an injection, and how it went: see injector.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "interpose/format/attach_request.h"

namespace culprit::report {

enum class Injection { kAttach, kDetach, kTensors, kScan };

struct InjectionOrder {
  Injection what = Injection::kAttach;  // kTensors, kScan: one step only, request.step
  format::AttachRequest request = {};
  std::string library;                     // path of libculprit.so for this process
  std::chrono::milliseconds limit{10000};  // for each step of the injection
};

// How an injection went.
struct InjectionFacts {
  int interrupted = 0;                       // the signal that ended it early
  std::chrono::nanoseconds took{0};          // all of it
  std::chrono::nanoseconds longest_stop{0};  // of a thread of the process
  std::uint64_t searched_bytes = 0;          // while the process ran
  std::uint64_t unsearched_bytes = 0;        // not looked at (again) in time
  std::uint64_t stopped_threads = 0;         // kScan: all of them, together
  std::int32_t repeated_calls = 0;           // of the program, that had just begun, and were made again
  std::int32_t cut_calls = 0;                // of the program, that may have moved less than they would have
  char cut_call[32] = {};                    // the last of these
};

}  // namespace culprit::report
