// culprit run -- command...: runs a program under libculprit.so and reports what it and its children leaked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/commands/output_options.h"
#include "report/run/fail_options.h"
#include "report/select/selection.h"

namespace culprit::report {

struct RunCommand {
  std::vector<std::string> command;
  bool keep = false;
  bool paused = false;
  std::string out;
  std::optional<unsigned> depth;  // frames per stack; empty: the library's default
  std::string log;
  bool no_framework_caches = false;
  bool torch_history = false;
  FailOptions fail;
  OutputOptions output;
  SelectionOptions selection;
};

// Declares the command's options on `app`. The words of the user's command are set separately.
void add_run_command(CLI::App* app, RunCommand* command);

// Returns the command's own exit code if it is not 0, else the report's. If a signal ended the command, this does not
// return: culprit ends with the same signal.
int run_run_command(const RunCommand& command);

}  // namespace culprit::report
