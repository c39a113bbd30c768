#include "report/model/memory_words.h"

#include <algorithm>

#include "report/model/report.h"
#include "report/model/sum_up.h"

namespace culprit::report {
namespace {

// clang-format off
constexpr MemoryWords kLeaked         = {"LEAKED", "Leaked", "never given back", "NOTHING LEAKED", "no leak", false};
constexpr MemoryWords kLiveWhenKilled = {"LIVE WHEN KILLED", "Live when killed", "live when the process was killed",
                                         "NOTHING LEAKED", "no leak", true};
constexpr MemoryWords kLiveAtEnd      = {"LIVE AT THE END", "Live at the end", "live when the process ended",
                                         "NOTHING LEAKED", "no leak", true};
constexpr MemoryWords kStillHeld      = {"STILL HELD", "Not freed yet", "not freed yet", "NOTHING HELD",
                                         "nothing is held", true};
constexpr MemoryWords kSurvivors      = {"SURVIVORS", "Survivors", "not freed while it was recorded", "NO SURVIVORS",
                                         "no survivor", true};
// clang-format on

// Whether test(process) holds for the process, or for all processes of the job.
template <typename Test>
bool holds(const Report& report, Test test) {
  if (report.job.empty()) return test(report.process.status);
  return std::all_of(report.job.begin(), report.job.end(), test);
}

constexpr auto kKilled = [](const auto& process) { return process.ended == Ended::kKilled; };
constexpr auto kKilledOrGone = [](const auto& process) { return process.ended == Ended::kKilled || process.gone; };

}  // namespace

const MemoryWords& words_of(const Report& report, Cause cause) {
  const ProcessStatus& status = report.process.status;
  const bool running = status.ended == Ended::kRunning;
  if (report.job.empty() && report.process.attached && (running || status.detached)) return kSurvivors;
  if (running) return kStillHeld;
  if (row_of(cause).while_running == WhileRunning::kLost) return kLeaked;
  if (holds(report, kKilled)) return kLiveWhenKilled;
  return holds(report, kKilledOrGone) ? kLiveAtEnd : kLeaked;
}

const MemoryWords& words_of(const Report& report) { return words_of(report, Cause::kNeverFreed); }

std::vector<MemoryTotal> totals_by_words(const Report& report, bool strict) {
  std::vector<MemoryTotal> totals;
  for (const Group& group : report.leaks) {
    if (!counts_as_leak(group, strict)) continue;
    const MemoryWords& words = words_of(report, group.cause);
    auto total =
        std::find_if(totals.begin(), totals.end(), [&](const MemoryTotal& one) { return one.words == &words; });
    if (total == totals.end())
      total = totals.insert(words.may_be_freed ? totals.end() : totals.begin(), MemoryTotal{&words});
    total->bytes += group.bytes;
    total->allocations += group.count;
    ++total->groups;
  }
  return totals;
}

const char* title_of(const Report& report, Cause cause) {
  const CauseRow& row = row_of(cause);
  return words_of(report, cause).may_be_freed ? row.title_while_running : row.title;
}

}  // namespace culprit::report
