#include "report/model/quiet_processes.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kNamed = 4;

bool is_quiet(const Report& report) {
  const Summary& summary = report.summary;
  return report.job.empty() && is_complete(report) && summary.allocations == 0 && summary.objects == 0 &&
         summary.frees == 0 && summary.unknown_frees == 0 && report.leaks.empty() && report.library.empty() &&
         report.resources.empty() && report.errors.empty() && report.failed_allocations.empty();
}

// "torchrun [1401] exit 1"
std::string process_text(const Report& report) {
  const ProcessInfo& process = report.process;
  std::string text = printable(base_name(process.executable));
  // Of an interpreter, the script says more.
  if (process.command.size() > 1 && text.compare(0, 6, "python") == 0)
    text += " " + printable(base_name(process.command[1]));
  text += " [" + std::to_string(process.pid) + "]";
  if (process.status.ended == Ended::kKilled) return text + " killed";
  if (process.status.ended != Ended::kExit || process.status.exit_status == 0) return text;
  return text + " exit " + std::to_string(process.status.exit_status);
}

}  // namespace

std::vector<const Report*> reports_in_full(const std::vector<Report>& reports, bool all) {
  std::vector<const Report*> shown;
  for (const Report& report : reports) {
    if (all || !is_quiet(report)) shown.push_back(&report);
  }
  if (shown.empty() && !reports.empty()) shown.push_back(&reports.front());
  return shown;
}

std::string quiet_processes_text(const std::vector<Report>& reports, bool all) {
  const std::vector<const Report*> shown = reports_in_full(reports, all);
  const std::size_t quiet = reports.size() - shown.size();
  if (quiet == 0) return "";
  std::string text = plural(quiet, "process", "processes") + " allocated nothing: ";
  std::size_t named = 0;
  for (const Report& report : reports) {
    if (std::find(shown.begin(), shown.end(), &report) != shown.end()) continue;
    if (++named > kNamed) break;
    text += (named == 1 ? "" : ", ") + process_text(report);
  }
  if (quiet > kNamed) text += ", and " + std::to_string(quiet - kNamed) + " more";
  return text;
}

}  // namespace culprit::report
