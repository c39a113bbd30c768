// How the process that wrote a dump ended, or that it still runs.
#pragma once

#include <string>

namespace culprit::report {

class Dump;

enum class Ended { kExit, kKilled, kRunning, kUnknown };

struct ProcessStatus {
  Ended ended = Ended::kUnknown;
  int exit_status = 0;    // when kExit
  int signal = 0;         // when kKilled; 0: not known, because `culprit run` did not start the process itself
  bool detached = false;  // by `culprit detach`; `ended` is then kUnknown, because the rest of the run was not recorded
  std::string note;       // why the end is not known, or another remark for the reader; may be empty
};

// Where the facts about this machine come from. The defaults are the real sources; tests replace them.
struct MachineFacts {
  std::string proc = "/proc";
};

// "exit", "killed", "running" or "unknown", as in the JSON report.
const char* ended_name(Ended ended);

// Looks the process up. A pid alone proves nothing (pids are re-used; exec keeps them): the process is the same when
// boot, pid namespace and start time agree, and it still writes this dump when it has this very file mapped. Never
// throws.
ProcessStatus process_status(const Dump& dump, const MachineFacts& machine = {});

// Whether the dump was surely made by this user on this machine since it was started. A stranger can write this
// host's name into a dump; the random ID of the kernel's start is known on this machine only, and other users of it
// cannot give a file away. After a reboot it is no longer known.
bool is_surely_of_this_machine(const Dump& dump, const MachineFacts& machine = {});

}  // namespace culprit::report
