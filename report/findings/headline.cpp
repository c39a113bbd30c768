#include "report/findings/headline.h"

#include <algorithm>
#include <cctype>

#include "report/base/words.h"
#include "report/model/memory_words.h"
#include "report/model/report.h"

namespace culprit::report {

void HeadlineFindings::add(const Report& report, EndAndFailures end_and_failures) {
  const bool told = end_and_failures == EndAndFailures::kTold;
  if (!told) {
    const auto was_killed = [](const auto& process) { return process.ended == Ended::kKilled; };
    const ProcessStatus& status = report.process.status;
    const auto killed = report.job.empty() ? (was_killed(status) ? 1 : 0)
                                           : std::count_if(report.job.begin(), report.job.end(), was_killed);
    signal_ = killed_ == 0 && report.job.empty() && killed == 1 && status.signal != 0 ? signal_text(status.signal) : "";
    killed_ += static_cast<std::uint64_t>(killed);
  }
  bad_frees_ += report.summary.errors;
  for (const FindingKind kind : kFindings) {
    const FindingRow& row = row_of(kind);
    if (*row.one == '\0' || (told && (row.drawn & kAboveHeadline) != 0)) continue;
    for (const Finding& finding : findings_of(report, kind))
      counts_[kind] += finding.asked_for ? 0 : std::max<std::uint64_t>(finding.count, 1);
  }
}

std::vector<std::string> HeadlineFindings::words() const {
  std::vector<std::string> list;
  if (killed_ == 1) list.push_back("killed" + (signal_.empty() ? "" : " by " + signal_));
  if (killed_ > 1) list.push_back(std::to_string(killed_) + " processes killed");
  if (bad_frees_ != 0) list.push_back(plural(bad_frees_, "bad free", "bad frees"));
  for (const auto& [kind, count] : counts_) {
    const FindingRow& row = row_of(kind);
    if (count == 0) continue;
    const bool has_number = std::string(row.one) != row.many;
    list.push_back(has_number ? plural(count, row.one, row.many) : row.one);
  }
  return list;
}

std::string HeadlineFindings::before_others() const {
  std::string text;
  for (const std::string& one : words()) text += one + ", ";
  return text;
}

std::vector<std::string> headline_findings(const Report& report, EndAndFailures end_and_failures) {
  HeadlineFindings findings;
  findings.add(report, end_and_failures);
  return findings.words();
}

std::vector<const Report*> bad_first(const std::vector<Report>& reports) {
  std::vector<const Report*> list;
  list.reserve(reports.size());
  for (const Report& report : reports) list.push_back(&report);
  std::stable_partition(list.begin(), list.end(), [](const Report* report) {
    return verdict_of(*report) != Verdict::kClean || !headline_findings(*report).empty();
  });
  return list;
}

std::string in_capitals(std::string words) {
  for (char& c : words) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return words;
}

std::string verdict_without_leaks(const Report& report, EndAndFailures end_and_failures) {
  std::string findings;
  for (const std::string& one : headline_findings(report, end_and_failures)) findings += in_capitals(one) + " · ";
  const MemoryWords& words = words_of(report);
  if (is_complete(report)) return findings + words.nothing;
  if (!report.hook_called) return findings + "NOT KNOWN: nothing was recorded";
  return findings + "NOT KNOWN: " + words.none_of + " among the recorded allocations";
}

std::string sentence_without_leaks(const std::vector<const Report*>& reports) {
  HeadlineFindings findings;
  bool complete = true;
  for (const Report* report : reports) {
    findings.add(*report, EndAndFailures::kNew);
    complete = complete && is_complete(*report);
  }
  const MemoryWords& words = words_of(reports.empty() ? Report() : *reports.front());
  std::string text = complete ? words.nothing : "not known";
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  text.insert(0, findings.before_others());
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace culprit::report
