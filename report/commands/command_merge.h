// culprit merge DUMP... -o FILE: merges the dumps of a job into one file, which can be reported and merged again.
#pragma once

#include <string>
#include <vector>

#include "report/commands/output_options.h"

namespace culprit::report {

struct MergeCommand {
  std::vector<std::string> dumps;
  OutputOptions output;
};

void add_merge_command(CLI::App* app, MergeCommand* command);

// Returns the exit code. Writes the output only if every input could be read.
int run_merge_command(const MergeCommand& command);

}  // namespace culprit::report
