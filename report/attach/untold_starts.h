// The last way to learn of a process of `culprit run` that recorded nothing: a look at all processes that live.
//
// A process that cannot make its dump stores that in the file of the run, or sends a message
// (interpose/format/run_starts.h). In a network namespace of its own, under a filter of system calls, or without a free
// descriptor it can do neither. Then it leaves its error in a variable of libculprit.so, which is read here as long as
// it lives. A process that was started without LD_PRELOAD (su, sudo, env -i, a container) has the driver and no
// libculprit.so. The processes of the run are those that were started with its environment, because a daemon has
// another parent, and those that descend from this one, because the environment of another user's cannot be read.
// Alternative: becoming their parent (PR_SET_CHILD_SUBREAPER), which changes what the program sees.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/proc/process_folder.h"

namespace culprit::report {

enum class Untold {
  kFailed,       // no dump: `error` is an errno
  kElsewhere,    // it recorded, where the dump is not seen
  kUnseen,       // the driver was loaded, libculprit.so was not
  kNotReadable,  // another user's: neither is known
  kRunsOn,       // after the command, with the driver and no call so far
  kRecordsOn,    // after the command, and has begun to record
};

struct UntoldStart {
  int pid = 0;
  std::uint64_t start_ticks = 0;
  std::string program;
  Untold what = Untold::kFailed;
  int error = 0;
};

class UntoldStarts {
 public:
  // `mark`: NAME=value, which only the processes of this run have in their environment.
  explicit UntoldStarts(std::string mark) : mark_(std::move(mark)) {}

  // Looks, unless the last look is too near.
  void look();
  // When the command has ended: looks until no process of the run lives, for at most `wait`. Returns what was found, in
  // the order of the pids.
  std::vector<UntoldStart> finish(std::chrono::milliseconds wait);
  // The names of the others that live after finish(): without the driver.
  const std::vector<std::string>& others() const { return others_; }

 private:
  using Key = std::pair<int, std::uint64_t>;  // pid and start

  // Returns whether a process of the run lives.
  bool look_at_all(bool at_end);
  void look_at(const ProcessFolder& process, int pid, const ProcessStat& stat, bool at_end);

  const std::string mark_;
  std::chrono::steady_clock::time_point next_;
  std::map<Key, UntoldStart> found_;
  std::set<Key> of_run_;  // that descended from this process when they were first seen
  std::vector<std::string> others_;
};

}  // namespace culprit::report
