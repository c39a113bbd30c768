// Runs a command as if culprit were not there: same terminal, same process group, signals passed on, exit status kept.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace culprit {

struct ChildResult {
  int start_errno = 0;  // not 0: the command could not be started
  bool signalled = false;
  int code = 0;  // exit code, or the signal
};

// Starts `command` with `environment` (names and values) added, waits for its end and passes on the signals that are
// sent to this process meanwhile. Those of the terminal reach the command by themselves and are not sent twice. Call it
// from a process with one thread. Only one call at a time.
ChildResult run_child(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& environment);

// Ends this process by the same signal that ended the command, without a second core file. Returns 128 + signal when
// the signal does not end a process.
int die_like_child(int signal_number);

// In a fork child that has one thread: becomes the command, with these variables besides its own. When that fails the
// errno is written to `error_pipe`, which the parent reads and execution closes (O_CLOEXEC), and the child ends.
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment, int error_pipe);

}  // namespace culprit
