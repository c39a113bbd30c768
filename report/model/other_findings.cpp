#include "report/model/other_findings.h"

#include <algorithm>
#include <cctype>

#include "report/base/words.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"

namespace culprit::report {

void OtherFindings::add(const Report& report, EndAndFailures end_and_failures) {
  if (end_and_failures == EndAndFailures::kNew) {
    const auto was_killed = [](const auto& process) { return process.ended == Ended::kKilled; };
    const ProcessStatus& status = report.process.status;
    const auto killed = report.job.empty() ? (was_killed(status) ? 1 : 0)
                                           : std::count_if(report.job.begin(), report.job.end(), was_killed);
    signal_ = killed_ == 0 && report.job.empty() && killed == 1 && status.signal != 0 ? signal_text(status.signal) : "";
    killed_ += static_cast<std::uint64_t>(killed);
    for (const FailedAllocation& failed : report.failed_allocations) {
      // A failure that was asked for is no finding.
      if (!failed.injected) (failed.bytes != 0 ? failed_allocations_ : failed_calls_) += failed.count;
    }
  }
  bad_frees_ += report.summary.errors;
  for (const SharedMemory& shared : report.shared) shared_ += shared.state == SharedState::kStays ? 1 : 0;
  for (const ContextInfo& context : report.contexts) stray_contexts_ += context.stray ? 1 : 0;
  for (const Bill& bill : report.bills) graphs_grow_ = graphs_grow_ || bill.growing;
}

std::vector<std::string> OtherFindings::words() const {
  std::vector<std::string> list;
  if (killed_ == 1) list.push_back("killed" + (signal_.empty() ? "" : " by " + signal_));
  if (killed_ > 1) list.push_back(std::to_string(killed_) + " processes killed");
  if (failed_allocations_ != 0) list.push_back(plural(failed_allocations_, "allocation", "allocations") + " failed");
  if (failed_calls_ != 0) list.push_back(plural(failed_calls_, "call", "calls") + " failed");
  if (bad_frees_ != 0) list.push_back(plural(bad_frees_, "bad free", "bad frees"));
  if (shared_ != 0) list.emplace_back("shared memory stays");
  if (stray_contexts_ != 0) list.push_back(plural(stray_contexts_, "stray context", "stray contexts"));
  if (graphs_grow_) list.emplace_back("graph executables grow");
  return list;
}

std::string OtherFindings::before_others() const {
  std::string text;
  for (const std::string& one : words()) text += one + ", ";
  return text;
}

std::vector<std::string> other_findings(const Report& report, EndAndFailures end_and_failures) {
  OtherFindings findings;
  findings.add(report, end_and_failures);
  return findings.words();
}

std::vector<const Report*> bad_first(const std::vector<Report>& reports) {
  std::vector<const Report*> list;
  for (const Report& report : reports) list.push_back(&report);
  std::stable_partition(list.begin(), list.end(), [](const Report* report) {
    return verdict_of(*report) != Verdict::kClean || !other_findings(*report).empty();
  });
  return list;
}

std::string in_capitals(std::string words) {
  for (char& c : words) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return words;
}

}  // namespace culprit::report
