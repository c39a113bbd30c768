// The bounds of the stack that libc gave a thread. A mapping may hold several stacks, and a stack may be part of
// another one (an alternate stack for signals, a coroutine's), so that the mapping is no bound.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "report/attach/safe_point.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// The stack that the kernel made for the first thread. It may have grown since: then less of it counts.
struct FirstStack {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t mapping_end = 0;  // the program's arguments and environment lie between
};
FirstStack first_stack(const TracedProcess& process);

// The lowest address that a thread may use below its stack pointer. Empty when the thread runs on a stack of another
// kind. `control`: its thread pointer; `walk`: its frames; `first`: for the first thread.
std::optional<std::uint64_t> stack_floor(const TracedProcess& process, std::uint64_t control, std::uint64_t pointer,
                                         const StackWalk& walk, const FirstStack& first);

// Whether the thread's descriptor, at its thread pointer, is another thread's: one that clone() made without
// thread-local data of its own. Libc's malloc and errno are then in use by both.
bool has_data_of_another(const TracedProcess& process, pid_t thread, std::uint64_t control);

}  // namespace culprit::report
