// Runs a command as if culprit were absent: same terminal, same process group, signals passed on, exit status kept.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace culprit::report {

struct ChildResult {
  int start_errno = 0;  // not 0: the command could not be started
  bool signalled = false;
  int code = 0;  // exit code, or the signal
};

// Starts `command` with `environment` (names and values) added, waits for its end and passes on the signals that this
// process receives meanwhile. Signals from the terminal reach the command directly and are not sent a second time. Call
// it from a process with one thread, one call at a time.
ChildResult run_child(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& environment);

// Ends this process with the signal that ended the command, without a second core file. Returns 128 + signal when that
// signal does not end a process.
int die_like_child(int signal_number);

// Call it in a fork child with one thread: executes the command with these variables added to its environment. If that
// fails, the child writes the errno to `error_pipe` and ends. The parent reads the pipe, which a successful exec closes
// (O_CLOEXEC).
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment, int error_pipe);

}  // namespace culprit::report
