// Bad things that are no leaks: bad frees, failed allocations, ... Every headline names them before the words that
// nothing leaked, so that a reader who stops there has not missed them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

struct Report;

// Whether the reader has been told already that a process was killed and that allocations failed: the text report has
// both above its headline.
enum class EndAndFailures { kNew, kTold };

class OtherFindings {
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
  std::uint64_t failed_allocations_ = 0;
  std::uint64_t failed_calls_ = 0;
  std::uint64_t bad_frees_ = 0;
  std::uint64_t shared_ = 0;
  std::uint64_t stray_contexts_ = 0;
  bool graphs_grow_ = false;
};

std::vector<std::string> other_findings(const Report& report, EndAndFailures end_and_failures = EndAndFailures::kNew);

// The reports with leaks, other findings or an unknown verdict first, else in their order.
std::vector<const Report*> bad_first(const std::vector<Report>& reports);

// "2 BAD FREES".
std::string in_capitals(std::string words);

}  // namespace culprit::report
