// Loads libculprit.so into a running process and has it begin or end recording.
//
// One thread of the process is borrowed for that, at a point where it holds no lock that matters; all others run on.
// The work is done by a child process of culprit's: whatever happens to it, the system lets the threads run on that it
// holds.
#pragma once

#include <chrono>
#include <string>

#include "interpose/format/attach_request.h"
#include "report/attach/traced_process.h"

namespace culprit {

enum class Injection { kAttach, kDetach };

struct InjectionOrder {
  Injection what = Injection::kAttach;
  AttachRequest request = {};
  std::string library;                     // libculprit.so, as this process knows it
  std::chrono::milliseconds limit{10000};  // for all of it
};

// Returns the library's answer, whatever its result. Throws AttachError when it was never asked, or nothing is known of
// the answer; the process then is as it was, unless the message says otherwise. SIGINT, SIGTERM and SIGHUP end it
// early: the process is put back first, and `interrupted` (0 = none) receives the signal. Call it from a process with
// one thread.
AttachRequest inject(const TracedProcess& process, const InjectionOrder& order, int* interrupted);

// What the result of an attach or a detach means, for the user; empty for kDone.
std::string describe_result(const TracedProcess& process, const AttachRequest& answer);
std::string describe_result(const TracedProcess& process, AttachResult result);

}  // namespace culprit
