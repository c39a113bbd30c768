// Loads libculprit.so into a running process and makes it begin or end recording.
//
// One thread of the process is borrowed, at a point where it holds no lock that loading a library or recording takes;
// all others run on. It is borrowed several times, each for a short time only, because the words that hold the driver's
// addresses are looked for from outside (word_search.h). A child process of culprit does the work: if it dies, the
// kernel lets its stopped threads run on.
#pragma once

#include <chrono>
#include <string>

#include "interpose/format/attach_request.h"
#include "report/attach/traced_process.h"

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

// Returns the library's answer, whatever its result. Throws AttachError when the library was not called, or its answer
// is not known; unless the message says otherwise, the process is unchanged. SIGINT, SIGTERM and SIGHUP end it early:
// the process is restored first. Call it from a process with one thread.
format::AttachRequest inject(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts);

}  // namespace culprit::report
