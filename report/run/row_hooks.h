// The commands of --exec of `culprit watch`: each runs beside the watch, with variables that describe its reason.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/base/forked_child.h"

namespace culprit::report {

// From a process with one thread.
class RowHooks {
 public:
  // `command`: for sh -c. Its output goes to stderr, because stdout may be a report of JSON. Empty: nothing is run.
  explicit RowHooks(std::string command) : command_(std::move(command)) {}

  // A command that cannot be started, or that fails, is a warning.
  void start(const std::vector<std::pair<std::string, std::string>>& environment);
  // Takes those that have ended.
  void look() { collect(false); }
  // Waits for all of them.
  void finish() { collect(true); }

 private:
  void collect(bool wait);

  const std::string command_;
  std::vector<ForkedChild> running_;
};

}  // namespace culprit::report
