// culprit report DUMP...: shows the contents of dumps.
#pragma once

#include <string>
#include <vector>

#include "report/commands/output_options.h"
#include "report/select/selection.h"

namespace culprit::report {

struct ReportCommand {
  std::vector<std::string> dumps;
  OutputOptions output;
  SelectionOptions selection;
  bool suggest_suppressions = false;
};

void add_report_command(CLI::App* app, ReportCommand* command);

// Reports all readable dumps and names the others on stderr. Returns the exit code.
int run_report_command(const ReportCommand& command);

}  // namespace culprit::report
