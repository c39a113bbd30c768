#include "report/findings/quiet_processes.h"

#include "report/base/words.h"
#include "report/findings/headline.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kNamed = 4;

bool is_quiet(const Report& report) {
  const Summary& summary = report.summary;
  return report.job.empty() && is_complete(report) && summary.allocations == 0 && summary.objects == 0 &&
         summary.frees == 0 && summary.unknown_frees == 0 && report.leaks.empty() && report.library.empty() &&
         report.resources.empty() && report.failed_allocations.empty() &&
         headline_findings(report, EndAndFailures::kTold).empty();
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
  if (process.status.gone) return text + " end unknown";
  if (process.status.ended != Ended::kExit || process.status.exit_status == 0) return text;
  return text + " exit " + std::to_string(process.status.exit_status);
}

}  // namespace

Prominence by_prominence(const std::vector<Report>& reports, bool all) {
  Prominence found;
  for (const Report* report : bad_first(reports))
    (all || !is_quiet(*report) ? found.in_full : found.quiet).push_back(report);
  if (found.in_full.empty() && !found.quiet.empty()) {
    found.in_full.push_back(found.quiet.front());
    found.quiet.erase(found.quiet.begin());
  }
  return found;
}

std::string quiet_processes_text(const std::vector<const Report*>& quiet) {
  if (quiet.empty()) return "";
  std::string text = plural(quiet.size(), "process", "processes") + " allocated nothing: ";
  for (std::size_t i = 0; i < quiet.size() && i < kNamed; ++i) text += (i == 0 ? "" : ", ") + process_text(*quiet[i]);
  if (quiet.size() > kNamed) text += ", and " + std::to_string(quiet.size() - kNamed) + " more";
  return text;
}

}  // namespace culprit::report
