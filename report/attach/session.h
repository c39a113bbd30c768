// The work of the process that attaches or detaches: step by step, each with a borrowed thread.
#pragma once

#include "report/attach/injection.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// As inject(), in this process. Throws AttachError with the true reason.
format::AttachRequest inject_here(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts);

}  // namespace culprit::report
