// What `culprit run` knew at the end of a run, as later reports of its dumps have it: from the file of the run
// (merge/run_file.h), or from a merged file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/dump/process_status.h"

namespace culprit::report {

struct DumpOfRun {
  std::string path;  // as the command found it
  std::uint32_t pid = 0;
  std::uint64_t start_realtime_ns = 0;
};

// A process that recorded nothing, or whose dump is elsewhere.
struct ProcessWithoutDump {
  int pid = 0;  // 0: not known
  std::string program;
  std::string reason;
  bool tells_deed = false;  // Dropped::reason_tells_deed
};

struct RunRecord {
  std::string id;
  std::string problem;  // why nothing else is known; empty: it is
  bool ended = false;   // false: the command runs, or was killed
  std::vector<std::string> command;
  std::string host;
  std::uint64_t start_realtime_ns = 0;
  bool whole_job = false;  // the command started all ranks of its job
  std::optional<EndOfRun> end;
  std::string failure;  // "ended with exit code 3": how the command failed; empty: it did not
  std::vector<DumpOfRun> dumps;
  std::vector<ProcessWithoutDump> without_dump;
  std::vector<std::string> notes;  // sentences: what could not be looked at
  std::string lives_on;            // a sentence: processes without CUDA that went on after the command; empty: none did
};

}  // namespace culprit::report
