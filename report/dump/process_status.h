// How the process that wrote a dump ended, or that it still runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "interpose/format/dump_file.h"

namespace culprit::report {

class Dump;

enum class Ended { kExit, kKilled, kRunning, kUnknown };

struct ProcessStatus {
  Ended ended = Ended::kUnknown;
  int exit_status = 0;    // when kExit
  int signal = 0;         // when kKilled; 0: not known
  bool detached = false;  // by `culprit detach`; `ended` is then kUnknown, because the rest of the run was not recorded
  bool gone = false;      // with kUnknown: the process has ended, without its exit handlers or by exec
  std::string note;       // why the end is not known, or another remark for the reader; may be empty

  // Whether no free can follow any more.
  bool is_over() const { return ended == Ended::kExit || ended == Ended::kKilled || gone; }
};

// A process of this boot: PID namespace, pid, and start time in ticks. Exec keeps all three.
using ProcessKey = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>;
ProcessKey process_key(const format::Header& header);

// How a child of this command ended.
struct ChildEnd {
  ProcessKey process;
  bool signalled = false;
  int code = 0;  // exit code, or the signal
};

// How the command of a `culprit run` ended, as a later report knows it.
struct EndOfRun {
  ChildEnd child;
  std::string boot_id;  // of the machine: there the process's key is the only one
};

// Where the facts about this machine come from. The defaults are the real sources; tests replace them.
struct MachineFacts {
  std::string proc = "/proc";
  std::optional<ChildEnd> child;
  std::map<std::string, EndOfRun> ends_of_runs;  // by the id of the run
  // The start times of the last dump of each process, of those that are read together. An earlier one was left by exec.
  std::map<ProcessKey, std::uint64_t> last_start_ns;
};

// "exit", "killed", "running" or "unknown", as in the JSON report.
const char* ended_name(Ended ended);

// Looks the process up. A dump that was not marked at the end is of a process that was killed, or that ended by the
// system call exit_group or by exec: which one is only said where it is proven, by the status of a child of this
// command or of a zombie. A pid alone proves nothing (pids are re-used; exec keeps them): the process is the same when
// boot, pid namespace and start time agree, and it still writes this dump when it has this very file mapped. Never
// throws.
ProcessStatus process_status(const Dump& dump, const MachineFacts& machine = {});

// Whether the dump was surely made by this user on this machine since it was started. A stranger can write this
// host's name into a dump; the random ID of the kernel's start is known on this machine only, and other users of it
// cannot give a file away. After a reboot it is no longer known.
bool is_surely_of_this_machine(const Dump& dump, const MachineFacts& machine = {});

}  // namespace culprit::report
