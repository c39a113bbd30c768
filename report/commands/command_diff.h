// culprit diff OLD NEW: which leaks are new, grown, shrunk or gone.
#pragma once

#include <string>

#include "report/commands/output_options.h"

namespace culprit::report {

struct DiffCommand {
  std::string before;
  std::string now;
  std::string allow_growth;
  OutputOptions output;
};

void add_diff_command(CLI::App* app, DiffCommand* command);

// Returns the exit code.
int run_diff_command(const DiffCommand& command);

}  // namespace culprit::report
