// culprit diff OLD NEW: which leaks are new, grown, shrunk or gone.
#include <memory>
#include <string>
#include <utility>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/commands/selection_options.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/render/formats.h"
#include "report/render/html/render_diff_html.h"
#include "report/render/json/render_diff_json.h"
#include "report/render/text/render_diff.h"
#include "report/select/diff.h"
#include "report/select/marked_list.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

struct DiffCommand {
  std::string before;
  std::string now;
  std::string from;
  std::string to;
  std::string allow_growth;
  OutputOptions output;
};

bool compares_marks(const DiffCommand& command) { return !command.from.empty() || !command.to.empty(); }

// How the arguments contradict one another; "" when they do not.
std::string problem_of(const DiffCommand& command) {
  if (!compares_marks(command)) return command.now.empty() ? "NEW is required" : "";
  return command.now.empty() ? "" : "--from and --to: compare moments of one dump: leave NEW out";
}

// The two ends, what was live at marks of one dump.
Diff diff_of_marks(const DiffCommand& command, const Growth& allowed) {
  LoadOptions load = command.output.load;
  load.marked = true;
  const Report report = load_with_progress(command.before, load);
  MarkedPair pair = marked_pair(report, command.from, command.to);
  return diff_of(std::move(pair.from), std::move(pair.to), allowed);
}

int run_diff(const DiffCommand& command) try {
  check_output_file(command.output.output, {command.before, command.now});
  const Growth allowed = parse_growth(command.allow_growth).value_or(Growth());
  const int code = command.output.error_exit_code;
  const bool asked = command.output.fail_on.empty() ? code != 0 : command.output.fail_on.front() == "new";
  const Diff diff = compares_marks(command) ? diff_of_marks(command, allowed)
                                            : diff_of(read_leak_list(command.before, command.output.load, asked),
                                                      read_leak_list(command.now, command.output.load, asked), allowed);
  const int written =
      write_output(command.output, DefaultStream::kStdout, [&](const Terminal& terminal, std::ostream& out) {
        find_format(command.output.format)->write_diff(diff, render_options(command.output, terminal), out);
      });
  if (written != kExitFine) return written;
  const bool worse = !diff.with(Change::kNew).empty() || !diff.with(Change::kGrown).empty();
  if (worse && asked) return code != 0 ? code : kExitFound;
  // The old run may lack leaks, too: then a leak that it had counts as new, which fails above.
  return asked && !diff.now.not_known.empty() ? kExitNotKnown : kExitFine;
} catch (const std::runtime_error& error) {  // FileError, DumpError
  log::error(error.what());
  return kExitUnreadable;
}

}  // namespace

Action declare_diff(OptionList* options) {
  const auto command = std::make_shared<DiffCommand>();
  options->add("OLD", &command->before, "The leaks before: a dump, a merged file, a JSON report or a baseline")
      .is_required()
      .type("");
  options->add("NEW", &command->now, "The leaks now: likewise; not with --from or --to").type("");
  options
      ->add(
          "--from", &command->from,
          "Compare what was live at two moments of the dump OLD that the program set by culprit_mark_with_bytes(), in "
          "Python culprit.mark(NAME, snapshot=True): first this one (default: the beginning). NAME: its newest; NAME#N")
      .type("NAME");
  options->add("--to", &command->to, "And this moment (default: the end, or now)").type("NAME");
  add_output_options(options, &command->output, diff_formats());
  add_growth_option(options, &command->allow_growth, "How much a leak may grow before it counts as grown, ");
  options->add("--all", &command->output.shown.all, "text, markdown: all changes, not only the first 10 of each list");
  options->add_check([command] { return problem_of(*command); });
  options->remove("--resources");
  options->remove("--fail-on");
  options->add("--fail-on", &command->output.fail_on, "Exit with 1 when leaks are new or have grown (new), or never")
      .one_of({"new", "none"})
      .type("WHAT");
  options->find("--error-exitcode").help = "Exit with N instead of 1; without --fail-on: as with --fail-on new";
  return [command] { return run_diff(*command); };
}

}  // namespace culprit::report
