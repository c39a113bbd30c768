// Loads libculprit.so into a running process and makes it begin or end recording.
//
// One thread of the process is borrowed, at a point where it holds no lock that loading a library or recording takes;
// all others run on. A child process of culprit does the work: if it dies, the kernel lets its stopped threads run on.
#pragma once

#include <chrono>
#include <string>

#include "interpose/format/attach_request.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

enum class Injection { kAttach, kDetach };

struct InjectionOrder {
  Injection what = Injection::kAttach;
  format::AttachRequest request = {};
  std::string library;                     // path of libculprit.so for this process
  std::chrono::milliseconds limit{10000};  // for the whole injection
};

// Returns the library's answer, whatever its result. Throws AttachError when the library was not called, or its answer
// is not known; unless the message says otherwise, the process is unchanged. SIGINT, SIGTERM and SIGHUP end it early:
// the process is restored first, and `interrupted` (0 = none) receives the signal. Call it from a process with one
// thread.
format::AttachRequest inject(const TracedProcess& process, const InjectionOrder& order, int* interrupted);

// Explains the result of an attach or a detach to the user; empty for kDone.
std::string describe_result(const TracedProcess& process, const format::AttachRequest& answer);
std::string describe_result(const TracedProcess& process, format::AttachResult result);

}  // namespace culprit::report
