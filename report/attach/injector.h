// Loads libculprit.so into a running process and makes it begin or end recording.
//
// One thread of the process is borrowed, at a point where it holds no lock that loading a library or recording takes;
// all others run on. It is borrowed several times, each for a short time only, because the words that hold the driver's
// addresses are looked for from outside (word_search.h). A child process of culprit does the work: if it dies, the
// kernel lets its stopped threads run on.
#pragma once

#include "report/attach/injection.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// Returns the library's answer, whatever its result. Throws AttachError when the library was not called, or its answer
// is not known; unless the message says otherwise, the process is unchanged. SIGINT, SIGTERM and SIGHUP end it early:
// the process is restored first. Call it from a process with one thread.
format::AttachRequest inject(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts);

}  // namespace culprit::report
