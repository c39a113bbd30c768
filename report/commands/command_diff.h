// culprit diff OLD NEW: what leaks now that did not, and the other way round.
#pragma once

#include <string>

#include "report/commands/report_options.h"

namespace culprit {

struct DiffCommand {
  std::string before;
  std::string now;
  std::string allow_growth;
  OutputOptions output;
};

// Declares the command's options on `app`.
void add_diff_command(CLI::App* app, DiffCommand* command);

// Returns the exit code.
int run_diff_command(const DiffCommand& command);

}  // namespace culprit
