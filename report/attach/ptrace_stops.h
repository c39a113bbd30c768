// Requests of ptrace(2), and what a stop of a traced thread means.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cstdint>

namespace culprit::report {

inline long trace(int request, pid_t thread, std::uint64_t address, std::uint64_t data) {
  return ::ptrace(static_cast<__ptrace_request>(request), thread, address, data);
}

inline bool is_trap_of_ours(int status) { return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP; }
inline bool is_group_stop(int status) { return is_trap_of_ours(status) && WSTOPSIG(status) != SIGTRAP; }
inline bool is_system_call(int status) { return WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80); }
// Whether a signal is about to be delivered.
inline bool is_signal(int status) { return WIFSTOPPED(status) && !is_trap_of_ours(status) && !is_system_call(status); }

}  // namespace culprit::report
