// culprit scan PID: which GPU memory of a running process is lost, now.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "report/attach/lost_scan.h"
#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/proc/target_process.h"
#include "report/render/json/scan_json.h"
#include "report/render/text/render_scan.h"
#include "report/run/preload.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

struct ScanCommand {
  pid_t pid = 0;
  double time_out = 10;
  double longest_stop = 0.05;
  OutputOptions output;
};

Report report_of(const std::string& dump, const LostScanResult& scan, LoadOptions options) {
  options.only_lost = LostNow{scan.lost, scan.last};
  options.judge.strict = true;  // memory that a library lost is lost, too
  Report report = load_report(dump, options);
  const auto is_lost = [](const Group& group) {
    return std::any_of(group.evidence.begin(), group.evidence.end(),
                       [](const Evidence& one) { return one.type == EvidenceType::kLost; });
  };
  report.leaks.erase(std::remove_if(report.leaks.begin(), report.leaks.end(), std::not_fn(is_lost)),
                     report.leaks.end());
  return report;
}

int run_scan(const ScanCommand& command) try {
  const TargetProcess target = find_target(kProc, static_cast<std::uint32_t>(command.pid));
  if (!target.problem.empty()) {
    const char* advice = ": start it with culprit run, so that all of its memory is known";
    log::error(target.problem + (target.without_library ? advice : ""));
    return kExitUnreadable;
  }
  if (target.dump.empty()) {
    log::error("process " + std::to_string(target.pid) +
               " records nothing: it made no CUDA call yet, or culprit was detached from it");
    return kExitUnreadable;
  }
  const TracedProcess process(static_cast<pid_t>(target.pid));
  process.check_attachable();
  const LostScanResult scan =
      scan_for_lost(process, {find_library(), milliseconds(static_cast<long>(std::ceil(command.time_out * 1000))),
                              std::chrono::microseconds(static_cast<long>(command.longest_stop * 1e6))});
  log::line("note    " + printable(process.name()) + ": " + plural(scan.threads, "thread", "threads") +
            " stopped for " + format_time(scan.stopped_ns) + ", " + format_bytes(scan.search_bytes) + " searched in " +
            format_time(scan.search_ns));
  const Report report = report_of(process.path_from_here(target.dump), scan, command.output.load);
  const int written =
      write_output(command.output, DefaultStream::kStdout, [&](const Terminal& terminal, std::ostream& out) {
        if (command.output.format == "json") {
          out << scan_json(scan, report).dump(2) << "\n";
          return;
        }
        RenderOptions shown = command.output.shown;
        shown.colours = terminal.colours;
        shown.columns = terminal.columns;
        render_scan(scan, report, shown, out);
      });
  if (written != kExitFine) return written;
  return scan.reason == format::LostSearch::kDone ? kExitFine : kExitNotKnown;
} catch (const std::exception& error) {
  log::failure(error);
  return kExitUnreadable;
}

}  // namespace

Action declare_scan(OptionList* options) {
  const auto command = std::make_shared<ScanCommand>();
  options->add("PID", &command->pid, "The process, which runs under culprit").positive().type("");
  add_format_options(options, &command->output, {"text", "json"}, "text, json", "Write what is lost to FILE");
  options->add("--all", &command->output.shown.all, "All groups, not only the first 10");
  options->add("--timeout", &command->time_out, "Give up after this time in one step (10s)").time().type("TIME");
  options
      ->add("--longest-stop", &command->longest_stop,
            "Look at the process only if this stops it for no longer, as far as is known before (50ms)")
      .time()
      .type("TIME");
  add_symbol_options(options, &command->output);
  return [command] { return run_scan(*command); };
}

}  // namespace culprit::report
