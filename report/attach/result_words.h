// The words for what the library in a process answered.
#pragma once

#include <string>

#include "interpose/format/attach_request.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// Explains the result of an attach or a detach to the user; empty for kDone.
std::string describe_result(const TracedProcess& process, const format::AttachRequest& answer);
std::string describe_result(const TracedProcess& process, format::AttachResult result);

}  // namespace culprit::report
