// Says how the process that wrote a dump ended, or that it still runs.
#pragma once

#include <string>

#include "report/dump/dump_reader.h"

namespace culprit {

enum class Ended { kExit, kKilled, kRunning, kUnknown };

struct ProcessStatus {
  Ended ended = Ended::kUnknown;
  int exit_status = 0;    // when kExit
  bool detached = false;  // by `culprit detach`, then kUnknown: what the process did afterwards was not seen
  std::string note;       // why it is not known, or what else a reader should know; may be empty
};

// Where the facts about this machine come from. The defaults are the real thing; tests replace them.
struct MachineFacts {
  std::string proc = "/proc";
};

// "exit", "killed", "running" or "unknown", as in the JSON report.
const char* ended_name(Ended ended);

// Looks the process up. A pid alone proves nothing (pids are re-used; exec keeps them): it is the same process when
// boot, pid namespace and start time agree, and it still writes this dump when it maps this very file. Never throws.
ProcessStatus process_status(const Dump& dump, const MachineFacts& machine = {});

}  // namespace culprit
