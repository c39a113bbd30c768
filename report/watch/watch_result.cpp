#include "report/watch/watch_result.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "report/base/words.h"

namespace culprit::report {
namespace {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), value < 10 ? "%.1f" : "%.0f", value);
  return text;
}

}  // namespace

WatchOutcome outcome_of(const WatchResult& result) {
  bool known = result.reasons.empty();
  for (const WatchedRows& process : result.processes) {
    for (const JudgedRow& row : process.rows) {
      if (row.judgement.verdict == WatchVerdict::kLeaking) return WatchOutcome::kLeaking;
      known = known && row.judgement.verdict != WatchVerdict::kWarmingUp;
    }
  }
  return known ? WatchOutcome::kSteady : WatchOutcome::kNotKnown;
}

const char* outcome_name(WatchOutcome outcome) {
  switch (outcome) {
    case WatchOutcome::kLeaking:
      return "leaking";
    case WatchOutcome::kSteady:
      return "steady";
    case WatchOutcome::kNotKnown:
      break;
  }
  return "not-known";
}

std::string rate_text(const WatchedRow& row, double per_minute) {
  const std::string sign = per_minute < 0 ? "-" : "+";
  const double size = std::abs(per_minute);
  if (row.objects) return sign + short_number(size) + " objects/min";
  return sign + format_bytes(static_cast<std::uint64_t>(std::min(size, 1e18))) + "/min";
}

std::string long_time_text(double seconds) {
  constexpr double kDay = 86400;
  if (seconds < 120) return short_number(seconds) + " s";
  if (seconds < 7200) return short_number(seconds / 60) + " min";
  if (seconds < 2 * kDay) return short_number(seconds / 3600) + " h";
  return seconds < 1000 * kDay ? short_number(seconds / kDay) + " days" : "years";
}

}  // namespace culprit::report
