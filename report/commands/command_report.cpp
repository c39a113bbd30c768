// culprit report DUMP...: shows the contents of dumps.
#include <memory>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/commands/selection_options.h"
#include "report/dump/named_dumps.h"
#include "report/merge/load_many.h"
#include "report/merge/other_runs.h"
#include "report/merge/run_knowledge.h"
#include "report/model/report.h"
#include "report/render/formats.h"
#include "report/select/selection.h"

namespace culprit::report {
namespace {

struct ReportCommand {
  std::vector<std::string> dumps;
  OutputOptions output;
  SelectionOptions selection;
  bool suggest_suppressions = false;
};

// Reports all readable dumps and names the others on stderr.
int run_report(const ReportCommand& command) try {
  Selection selection(command.selection);
  const NamedDumps named = named_dumps(command.dumps);
  std::vector<std::string> inputs = command.selection.files();
  inputs.insert(inputs.end(), named.paths.begin(), named.paths.end());
  check_output_file(command.output.output, inputs);
  RunKnowledge runs(named);
  LoadOptions options = command.output.load;
  options.machine.ends_of_runs = runs.ends();
  LoadedReports loaded = load_many(named.paths, options, command.output.job);
  std::vector<Report>& reports = loaded.reports;
  if (loaded.unreadable && reports.empty()) return kExitUnreadable;
  if (!has_marks(reports, command.output)) return kExitUnreadable;
  if (!has_devices(reports, command.selection)) return kExitUnreadable;
  OutputOptions output = command.output;
  if (!has_id(reports, command.selection, &output)) return kExitUnreadable;
  add_missing_ranks(runs.is_whole_job(), &reports);
  add_notes_on_runs(named.paths, &reports);
  const bool judged = has_gate(command.output) || command.selection.compares();
  runs.add_to(judged, &reports);
  std::vector<std::string> left_out = named.left_out;
  bool unreadable = false;
  for (const auto& [path, problem] : loaded.problems) {
    const bool of_folder = named.of_folders.count(path) != 0;
    if (of_folder) left_out.push_back(problem);
    unreadable = unreadable || !of_folder;
  }
  add_left_out(left_out, &reports);
  require_complete(command.output, &reports);
  tell_lives_on(command.output, runs.lives_on(), &reports);
  tell_notes(runs.notes(), &reports);
  for (const std::string& failure : runs.failures()) {
    if (!reports.empty()) reports.front().notes.push_back(failure);
  }
  if (reports.empty()) log::warning("no CUDA call was seen: the run left no dump");
  if (!reports.empty() || command.output.format != "text" || !command.output.output.empty()) {
    selection.apply(command.output.load.judge.strict, &reports);
    output.shown.nothing_known = unreadable || (reports.empty() && !runs.failures().empty());
    const int written = command.suggest_suppressions
                            ? write_output(command.output, DefaultStream::kStdout,
                                           [&](const Terminal&, std::ostream& out) {
                                             out << suggest_suppressions(reports, command.output.load.judge.strict);
                                           })
                            : write_reports(reports, output, DefaultStream::kStdout, true);
    if (written != kExitFine) return written;
  }
  // A baseline without the unreadable dumps would make their leaks new tomorrow.
  if (unreadable) return kExitUnreadable;
  const bool written = selection.write(command.output.load.judge.strict, reports);
  const int found = gate_result(reports, command.output);
  if (found != kExitFine) return found;
  if (judged && !runs.failures().empty()) {
    for (const std::string& failure : runs.failures()) log::error(failure);
    return kExitNotKnown;
  }
  if (!written) return kExitNotKnown;
  bool hooked = reports.empty();
  for (const Report& report : reports) hooked = hooked || report.hook_called;
  return hooked ? kExitFine : kExitNotKnown;
} catch (const FileError& error) {
  log::error(error.what());
  return kExitUnreadable;
}

}  // namespace

Action declare_report(OptionList* options) {
  const auto command = std::make_shared<ReportCommand>();
  options->add("DUMP", &command->dumps, "Dumps of finished or running processes (culprit.*.dump), or a folder of them")
      .type("");
  add_output_options(options, &command->output, report_formats());
  add_job_options(options, &command->output);
  options->add(
      "--suggest-suppressions", &command->suggest_suppressions,
      "Instead of a report write suppressions that hide the leaks, and the keepers of live tensors, which are found");
  add_selection_options(options, &command->selection, &command->output);
  add_id_option(options, &command->selection);
  options->add_check([command] { return std::string(command->dumps.empty() ? "no dump named" : ""); });
  return [command] { return run_report(*command); };
}

}  // namespace culprit::report
