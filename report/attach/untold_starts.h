// The last way to learn of a process of `culprit run` that recorded nothing: a look at all processes that live.
//
// A process that cannot make its dump stores that in the file of the run, or sends a message
// (interpose/format/run_starts.h). In a network namespace of its own, under a filter of system calls, or without a free
// descriptor it can do neither. Then it leaves its error in a variable of libculprit.so, which is read here as long as
// it lives. A process that was started without LD_PRELOAD (su, sudo, env -i, a container) has the driver and no
// libculprit.so. The processes of the run are those that were started with its environment, because a daemon has
// another parent, those that descend from its command, because the environment of another user's cannot be read, and
// those in a process group or session that a process of the run leads, because their parent may have ended.
// Alternative: becoming their parent (PR_SET_CHILD_SUBREAPER), which changes what the program sees.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/proc/process_folder.h"

namespace culprit::report {

// How a process belongs to a run.
enum class OfRun {
  kNo,
  kYes,
  kLikely,  // its parent ended before a look, and it is in the run's control group
};

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
  explicit UntoldStarts(std::string mark);

  // The command runs. Older children of this process are not of the run: its copy that asks NVML, and those of a shell
  // that became this process (`exec culprit run`). Never throws: without memory, the command's processes are known by
  // their environment only.
  void begin_with(int command) noexcept;
  // Looks, unless the last look is too near.
  void look();
  // When the command has ended: looks until no process of the run lives, for at most `wait`. Returns what was found, in
  // the order of the pids.
  std::vector<UntoldStart> finish(std::chrono::milliseconds wait);
  // The others that live after finish(): without the driver.
  const std::vector<UntoldStart>& others() const { return others_; }

  // Of the last look: processes that live, began in the time of the run, and of which it is not known that they record:
  // those of the run, and those that may be.
  std::size_t undecided() const { return undecided_; }
  OfRun belongs(int pid, std::uint64_t start_ticks) const;
  // Whether the library in it has told that it records, or that it cannot.
  static bool has_told(int pid);

 private:
  using Key = std::pair<int, std::uint64_t>;  // pid and start

  // Returns whether a process of the run lives.
  bool look_at_all(bool at_end);
  void look_at(const ProcessFolder& process, int pid, const ProcessStat& stat, bool at_end);
  bool is_of_run(const ProcessFolder& process, int pid, const ProcessStat& stat,
                 const std::map<int, ProcessStat>& all) const;
  bool is_led_by_run(std::uint32_t leader, const std::map<int, ProcessStat>& all) const;
  bool is_orphan(const ProcessFolder& process, const ProcessStat& stat, const std::map<int, ProcessStat>& all) const;

  const std::string mark_;
  std::uint64_t begin_ticks_ = 0;  // the start of this process
  std::uint64_t command_ticks_ = std::numeric_limits<std::uint64_t>::max();
  std::string control_groups_;  // of this process
  std::chrono::steady_clock::time_point next_;
  std::map<Key, UntoldStart> found_;
  std::set<Key> of_run_;   // the command, and what was found to be of the run
  std::set<int> leaders_;  // the pids of all these
  // Processes that began in the time of the run: true, if the parent had ended at the first look.
  std::map<Key, bool> began_;
  std::size_t undecided_ = 0;
  std::vector<UntoldStart> others_;
};

}  // namespace culprit::report
