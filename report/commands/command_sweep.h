// culprit sweep -- command...: runs a program once unchanged, then once per allocation site with that allocation made
// to fail, and reports the leaks, crashes and hangs that only the failures cause.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/commands/output_options.h"

namespace culprit::report {

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

// Declares the command's options on `app`. The words of the user's command are set separately.
void add_sweep_command(CLI::App* app, SweepCommand* command);

// Returns the clean run's exit code if it is not 0, else the one that --fail-on asks for. Does not return when a signal
// ended the clean run or culprit was sent one that ends it.
int run_sweep_command(const SweepCommand& command);

}  // namespace culprit::report
