#include "report/commands/command_report.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "report/base/exit_codes.h"
#include "report/commands/selection_options.h"
#include "report/model/report.h"
#include "report/render/formats.h"

namespace culprit::report {

void add_report_command(CLI::App* app, ReportCommand* command) {
  app->add_option("DUMP", command->dumps, "Dumps of finished or running processes (culprit.*.dump)")->type_name("");
  add_output_options(app, &command->output, report_formats());
  add_job_options(app, &command->output);
  app->add_flag("--suggest-suppressions", command->suggest_suppressions,
                "Instead of a report write suppressions that hide the leaks which are found");
  add_selection_options(app, &command->selection, &command->output);
}

int run_report_command(const ReportCommand& command) try {
  Selection selection(command.selection);
  LoadedReports loaded = load_many(command.dumps, command.output.load, command.output.job);
  std::vector<Report>& reports = loaded.reports;
  if (!has_since_mark(reports, command.output)) return kExitUnreadable;
  add_missing_ranks(&reports);
  if (!reports.empty()) {
    selection.apply(command.output.load.judge.strict, &reports);
    const int written = command.suggest_suppressions
                            ? write_output(command.output, DefaultStream::kStdout,
                                           [&](bool, std::ostream& out) {
                                             out << suggest_suppressions(reports, command.output.load.judge.strict);
                                           })
                            : write_reports(reports, command.output, DefaultStream::kStdout, true);
    if (written != kExitFine) return written;
  }
  // A baseline without the unreadable dumps would make their leaks new tomorrow.
  if (loaded.unreadable) return kExitUnreadable;
  selection.write(command.output.load.judge.strict, reports);
  const int found = verdict(reports, command.output);
  if (found != kExitFine) return found;
  bool hooked = false;
  for (const Report& report : reports) hooked = hooked || report.hook_called;
  return hooked ? kExitFine : kExitNoHook;
} catch (const FileError& error) {
  std::cerr << "culprit: " << error.what() << "\n";
  return kExitUnreadable;
}

}  // namespace culprit::report
