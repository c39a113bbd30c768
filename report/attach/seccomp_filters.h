// The seccomp filters of another process, read before anything is done in it: whether they let it make the system calls
// of loading libculprit.so and of recording.
//
// A filter is a program of BPF without loops. It is run here for each call, for all arguments at once: where it tests
// something that is not known beforehand (an argument, the address of the call), both ways are followed, and the worst
// answer counts.
//
// Rejected: PTRACE_O_SUSPEND_SECCOMP, which would switch the sandbox off for the injected calls only. The library makes
// the same calls later, in hooks.
#pragma once

#include <linux/filter.h>

#include <string>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

using FilterProgram = std::vector<sock_filter>;

// From harmless to harmful.
enum class FilterAnswer {
  kAllowed,
  kError,       // the call fails
  kUnknown,     // the program is not understood, or has too many ways
  kSupervised,  // another process decides (SECCOMP_RET_USER_NOTIF)
  kTrapped,     // a handler of the program is called; with the signal blocked, as in hooks, the program ends
  kKilled,
};

FilterAnswer worst_answer(const FilterProgram& program, long call);

// The system calls that are made in a process with a filter, and the name of each.
struct NeededCall {
  long number;
  const char* name;
  bool must_succeed;
};
const std::vector<NeededCall>& needed_calls();

// Why the filters forbid to attach, as the end of a sentence about the process; empty: they do not.
std::string why_filters_forbid(const std::vector<FilterProgram>& filters);

// Throws AttachError when it is known without a stop that the process cannot be attached: strict mode; filters that
// this process may not read, and that are not its own too (those of a container around both).
void check_seccomp(const TracedProcess& process);

// Whether all threads have the same filters, as far as /proc tells: hooks run in each. Throws AttachError otherwise.
void check_filters_are_alike(const TracedProcess& process);

// For a stopped thread of a process that passed check_seccomp(). Throws AttachError.
void check_filters_of_thread(const TracedProcess& process, pid_t thread);

// Whether a stopped thread may make this call. True when there is no filter; false when its filters cannot be read.
bool may_make_call(const TracedProcess& process, pid_t thread, long call);

}  // namespace culprit::report
