// culprit sweep -- command...: runs a program once as it is, then once for each place where it allocates memory, making
// that allocation fail, and reports what only then leaks, crashes or hangs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/commands/report_options.h"

namespace culprit {

struct SweepCommand {
  std::vector<std::string> command;
  unsigned jobs = 1;
  double timeout = 0;              // seconds; 0: from the clean run's time
  unsigned max_runs = 0;           // 0: all
  std::vector<std::string> sites;  // empty: all
  bool show_output = false;
  std::string out;  // folder for the dumps; empty: a temporary one
  std::string log;
  OutputOptions output;
};

// Declares the command's options on `app`. The words of the command itself come separately.
void add_sweep_command(CLI::App* app, SweepCommand* command);

// Returns the clean run's exit code if it is not 0, else what --fail-on asks for. Does not return when a signal ended
// the clean run, or is to end culprit.
int run_sweep_command(const SweepCommand& command);

}  // namespace culprit
