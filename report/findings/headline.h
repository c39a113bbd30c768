// Findings in the first line of a report. Every headline names them before the words that nothing leaked, so that a
// reader who stops there has not missed them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/findings/finding.h"
#include "report/model/not_recorded.h"

namespace culprit::report {

// Whether the reader has been told already that a process was killed, and of the rows that are drawn above the
// headline: the text report and Markdown have both there.
enum class EndAndFailures { kNew, kTold };

// The words of a headline: how processes ended, bad frees, and the findings whose row has words for it.
class HeadlineFindings {
 public:
  // Adds up, for the title of several processes.
  void add(const Report& report, EndAndFailures end_and_failures);

  // "2 bad frees", "graph executables grow", ... in the order in which a headline names them.
  std::vector<std::string> words() const;

  // In front of another part of a headline: "2 bad frees, 1 allocation failed, "; empty when there are none.
  std::string before_others() const;

 private:
  std::uint64_t killed_ = 0;
  std::string signal_;  // of the only process; empty: not known
  std::uint64_t bad_frees_ = 0;
  std::map<FindingKind, std::uint64_t> counts_;
};

std::vector<std::string> headline_findings(const Report& report,
                                           EndAndFailures end_and_failures = EndAndFailures::kNew);

// The reports with leaks, findings of a headline or an unknown verdict first, else in their order.
std::vector<const Report*> bad_first(const std::vector<Report>& reports);

// "2 BAD FREES".
std::string in_capitals(std::string words);

// The headline of a text report without leaks: "NOTHING LEAKED" only when everything was recorded, and after the other
// findings: "1 BAD FREE · NOTHING LEAKED".
std::string verdict_without_leaks(const Report& report, EndAndFailures end_and_failures = EndAndFailures::kNew);

// The same in a sentence, "1 bad free, nothing leaked", of one report or of several.
std::string sentence_without_leaks(const std::vector<const Report*>& reports);

}  // namespace culprit::report
