// The audit: an independent count of what the hooks record.
//
// CUPTI's callbacks report the program's calls of the driver, whichever way the program found the functions. A call of
// a function that makes or ends something (driver/audited.h) is *recorded* when the calling thread is in a hook at that
// moment and the function has a row in hooks.def that records. Calls of the tracker itself are left out.
//
// CUPTI has one subscriber in a process, so the audit begins after the first cuInit, and never takes CUPTI from another
// tool: when one holds it, there is no audit; when the program's own profiler subscribes later, the audit ends before
// that. Between load and cuInit a program can make nothing.
#pragma once

namespace culprit {

// Begins the audit: see begin_audit(). The outcome is in audit_state().
void start_audit();

// For dlsym: the function to be returned for the name of a function of CUPTI that was found at `found`.
bool is_cupti_subscribe(const char* name);
void* stand_in_for_subscribe(const char* name, void* found);

}  // namespace culprit
