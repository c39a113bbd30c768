// The result of `culprit watch`, as the formats write it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/model/keeper.h"
#include "report/watch/watched_process.h"

namespace culprit::report {

struct WatchedRows {
  const WatchedProcess* process = nullptr;
  std::vector<JudgedRow> rows;
  // Of `--tensors`, where live tensors leak: how much more each variable keeps, the one that grew most first.
  std::optional<std::vector<GrownKeeper>> grown;
  double grown_seconds = 0;   // between the two views; 0: there was one, so that nothing could grow
  std::string grown_problem;  // why there is no view; empty: there is one
};

enum class WatchOutcome { kLeaking, kSteady, kNotKnown };

struct WatchResult {
  std::vector<WatchedRows> processes;
  std::vector<std::string> reasons;  // sentences: why it is not known whether something leaks, beside rows that warm up
};

// kLeaking when a row leaks. Else kNotKnown with a reason, and when a row warms up.
WatchOutcome outcome_of(const WatchResult& result);
const char* outcome_name(WatchOutcome outcome);

// "+1.00 MiB/min", "+2.0 objects/min".
std::string rate_text(const WatchedRow& row, double per_minute);
// "3.2 h", "12 min", "40 days".
std::string long_time_text(double seconds);

}  // namespace culprit::report
