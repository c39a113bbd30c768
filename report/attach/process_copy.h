// A frozen copy that a process made of itself (interpose/system/frozen_child.h), and the state of libculprit.so in it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "report/attach/traced_process.h"

namespace culprit::report {

// The address of a variable that the library in the process exports. Throws AttachError if it has none.
std::uint64_t place_of_variable(const TracedProcess& process, const char* name);

// The number of a copy as this process sees it, from that which the process sees. Empty: it has ended.
std::optional<pid_t> find_copy(const TracedProcess& process, std::int32_t number);

}  // namespace culprit::report
