// Runs a command as if culprit were absent: same terminal, same process group, signals passed on, exit status kept.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "report/base/forked_child.h"

namespace culprit::report {

struct ChildResult {
  int start_errno = 0;  // not 0: the command could not be started
  bool signalled = false;
  int code = 0;  // exit code, or the signal
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // with the pid, it names the process; 0: not known
};

// Called from time to time while a command runs. Returns the time until its next call. Must not throw: the command
// would run on alone.
using Meanwhile = std::function<std::chrono::milliseconds()>;

// Starts `command` with `environment` (names and values) added, waits for its end and passes on the signals that this
// process receives meanwhile. Signals from the terminal reach the command directly and are not sent a second time. Call
// it from a process with one thread, one call at a time. `started` gets the command's pid.
ChildResult run_child(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& environment,
                      const Meanwhile& meanwhile = nullptr, const std::function<void(pid_t)>& started = nullptr);

// Ends this process with the signal that ended the command, without a second core file. Returns 128 + signal when that
// signal does not end a process.
int die_like_child(int signal_number);

// Starts `command` with `environment` added and waits until it runs or has failed to: in the latter case
// ForkedChild::error is set, also if there is a child to wait for. The child calls `prepare` before. Call it from a
// process with one thread.
ForkedChild start_child(const std::vector<std::string>& command,
                        const std::vector<std::pair<std::string, std::string>>& environment,
                        const std::function<void()>& prepare);

// The result in a status of waitpid().
ChildResult result_of(const ForkedChild& child, int status);

}  // namespace culprit::report
