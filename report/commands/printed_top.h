// `culprit top` as text and as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace culprit::report {

struct PrintedTop {
  std::vector<std::string> targets;  // processes by pid, and dumps; none: all processes of the machine
  double interval = 2;               // seconds between two looks
  unsigned times = 0;                // looks in all; 0: on a terminal until the processes end, elsewhere once
  std::size_t rows = 20;
  std::string by = "stack";
};

// Prints to standard output. Returns the exit code: kExitUnreadable when a target cannot be looked at, or NVML is
// needed and cannot be asked. From a process with one thread.
int print_top(const PrintedTop& command);

// The same as JSON (culprit.top/1), one line for each look.
int print_top_json(const PrintedTop& command);

}  // namespace culprit::report
