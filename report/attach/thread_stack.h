// The bounds of the stack that libc gave a thread. A mapping may hold several stacks, and a stack may be part of
// another one (an alternate stack for signals, a coroutine's), so that the mapping is no bound.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "report/attach/safe_point.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// The lowest address that a thread may use below its stack pointer. Empty when the thread runs on a stack of another
// kind. `control`: its thread pointer; `walk`: its frames.
std::optional<std::uint64_t> stack_floor(const TracedProcess& process, std::uint64_t control, std::uint64_t pointer,
                                         const StackWalk& walk);

}  // namespace culprit::report
