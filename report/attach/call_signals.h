// The signals that reach a thread while it makes a call for culprit: those that the call itself caused, and those
// that were sent.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "report/attach/registers.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

// The signals that a running instruction raises. All others are blocked during a call. Blocking these too would make
// the kernel reset the program's handler when an instruction does raise one.
inline constexpr int kOfInstructions[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
bool is_of_instruction(int signal_number);

// The signal by which libc makes each thread change its user and groups. A thread that calls setuid() and the like
// waits until all others have, and keeps a lock meanwhile that dlopen() takes.
inline constexpr int kOfUsers = 33;

// In a signal mask of the kernel.
inline std::uint64_t bit_of(int signal_number) { return std::uint64_t{1} << (signal_number - 1); }

enum class SignalOrigin {
  kSent,     // by a process, a timer or the kernel, whatever the thread does
  kFault,    // by the instruction that the thread made
  kPassed,   // likewise, but the call goes on behind it, and does so now
  kTrapped,  // a system call of the thread that a seccomp filter or the program's own dispatch gives to its handler
};

// For a thread that is stopped because the signal is about to be delivered to it. The kernel sends some signals with
// the si_code of a fault that are none (events of perf, F_SETSIG); it is one where the rest fits the thread's registers
// and the process's memory.
SignalOrigin origin_of(const TracedProcess& process, const siginfo_t& info, const ThreadRegisters& registers);

// "SIGSEGV at 0x10 in libculprit.so+0x4f20".
std::string describe_fault(const TracedProcess& process, const siginfo_t& info, const ThreadRegisters& registers);

}  // namespace culprit::report
