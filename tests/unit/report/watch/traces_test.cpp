// The error rates of the verdicts of `culprit watch`, over simulated programs.
#include <cstdio>
#include <map>
#include <string>

#include "../../../catch.h"
#include "report/watch/verdict.h"
#include "simulated_traces.h"

using namespace culprit::report;

namespace {

struct Confusion {
  unsigned found = 0;   // leaks that are called so
  unsigned missed = 0;  // that are not
  unsigned false_alarms = 0;
  unsigned right = 0;
  unsigned unknown_clean = 0;
  std::map<std::string, std::map<std::string, unsigned>> table;  // by program and verdict

  double precision() const { return found / static_cast<double>(found + false_alarms); }
  double recall() const { return found / static_cast<double>(found + missed); }
  std::string text() const {
    std::string text = "precision " + std::to_string(precision()) + ", recall " + std::to_string(recall()) + "\n";
    for (const auto& [name, verdicts] : table) {
      text += name + ":";
      for (const auto& [verdict, times] : verdicts) text += " " + std::to_string(times) + " " + verdict;
      text += "\n";
    }
    return text;
  }
};

void judge_trace(const Trace& trace, Confusion* confusion) {
  const WatchVerdict verdict = judge_row(trace.history, trace.history.rows().front(), 0).verdict;
  ++confusion->table[trace.name][verdict_title(verdict)];
  const bool called = verdict == WatchVerdict::kLeaking;
  ++(trace.leaks ? called ? confusion->found : confusion->missed : called ? confusion->false_alarms : confusion->right);
  if (!trace.leaks && verdict == WatchVerdict::kWarmingUp) ++confusion->unknown_clean;
}

Confusion over_seeds(std::uint64_t first, std::uint64_t seeds, Ranges ranges) {
  Confusion confusion;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    for (std::size_t kind = 0; kind < kTraceKinds; ++kind) judge_trace(simulate(kind, seed, ranges), &confusion);
  }
  return confusion;
}

}  // namespace

TEST_CASE("Of simulated programs those that leak are found, and no others", "[one-thread]") {
  // 440 traces.
  const Confusion confusion = over_seeds(1, 20, Ranges::kTuned);
  INFO(confusion.text());
  CHECK(confusion.precision() >= 0.95);
  CHECK(confusion.recall() >= 0.95);
  CHECK(confusion.unknown_clean <= 0.1 * (confusion.right + confusion.false_alarms));
}

TEST_CASE("Of simulated programs with wider ranges and seeds of their own those that leak are found, and no others",
          "[one-thread]") {
  const Confusion confusion = over_seeds(100000, 20, Ranges::kWide);
  INFO(confusion.text());
  CHECK(confusion.precision() >= 0.95);
  CHECK(confusion.recall() >= 0.95);
  CHECK(confusion.unknown_clean <= 0.1 * (confusion.right + confusion.false_alarms));
}

TEST_CASE("1 MiB a minute under 1 GiB a second of churn is found within 30 minutes", "[one-thread]") {
  const Trace trace = churn_of_a_gibibyte(30, true);
  const RowJudgement found = judge_row(trace.history, trace.history.rows().front(), 0);
  CHECK(found.verdict == WatchVerdict::kLeaking);
  CHECK(found.per_minute == Approx(1 << 20).epsilon(0.1));
  CHECK(found.confidence > 0.9);
  const Trace clean = churn_of_a_gibibyte(30, false);
  CHECK(judge_row(clean.history, clean.history.rows().front(), 0).verdict == WatchVerdict::kSteady);
}
