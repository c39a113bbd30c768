// culprit merge DUMP... -o FILE: makes one file of the dumps of a job, which can be reported and merged again.
#pragma once

#include <string>
#include <vector>

#include "report/commands/report_options.h"

namespace culprit {

struct MergeCommand {
  std::vector<std::string> dumps;
  OutputOptions output;
};

// Declares the command's options on `app`.
void add_merge_command(CLI::App* app, MergeCommand* command);

// Returns the exit code. Nothing is written unless every file could be read.
int run_merge_command(const MergeCommand& command);

}  // namespace culprit
