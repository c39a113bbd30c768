// The verdict of one row, from its history alone: no I/O, no clock.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/watch/history.h"

namespace culprit::report {

// With fewer samples nothing is known of a process.
inline constexpr std::size_t kLeastTimes = 24;

enum class WatchVerdict {
  kLeaking,
  kWarmingUp,      // it grows, and whether it goes on is not known yet
  kFillingACache,  // it grew, and it grows more and more slowly, or no longer
  kSawTooth,       // it grows, and gives all back again and again
  kSteady,
};

// "leaking", "warming-up", ... as in JSON; "LEAKING", "WARMING UP", ... as in the text.
const char* verdict_name(WatchVerdict verdict);
const char* verdict_title(WatchVerdict verdict);

struct RowJudgement {
  WatchVerdict verdict = WatchVerdict::kSteady;
  double per_minute = 0;  // growth of the minima, Theil-Sen: bytes, or objects. Below 0: it shrinks
  double lowest = 0;      // ... and the interval of 95%
  double highest = 0;
  double confidence = 0;       // of the verdict, 0 to 0.99
  double p_rising = 1;         // Mann-Kendall, of the minima
  double period = 0;           // seconds, of the repeated pattern; 0: none was found
  double kept_per_minute = 0;  // survivors of births after the warm-up, without the youngest
};

// Rows that grow by less than `least_per_minute` do not leak.
RowJudgement judge_row(const History& history, const RowHistory& row, double least_per_minute);

}  // namespace culprit::report
