#include "report/metrics/row_verdicts.h"

#include <utility>

#include "report/model/program_frames.h"

namespace culprit::report {
namespace {

constexpr WatchVerdict kVerdicts[] = {WatchVerdict::kLeaking, WatchVerdict::kWarmingUp, WatchVerdict::kFillingACache,
                                      WatchVerdict::kSawTooth, WatchVerdict::kSteady};

constexpr double kLeastPerMinute = 0;  // as `culprit watch` without --grow: an alert has a limit of its own

}  // namespace

void RowVerdicts::look(const Dump& dump, const std::map<std::string, DeviceAnswer>& answers, std::size_t rows,
                       std::size_t shown, ProcessSample* sample) {
  process_.limit_rows(rows);
  process_.sample(dump, clock_.now(dump), answers, sample->insides);
  sample->watched_seconds = process_.seconds();
  sample->watched_looks = process_.history().samples();
  sample->not_watched = process_.left_out();
  if (sample->watched_looks < kLeastTimes) return;  // nothing is known yet: no row has a verdict
  std::map<WatchVerdict, std::uint64_t> counts;
  std::set<std::string> leaking;
  for (const JudgedRow& judged : process_.judge(kLeastPerMinute)) {
    WatchVerdict verdict = judged.judgement.verdict;
    // Each look is one more chance for an error: a row leaks when two looks in a row say so.
    if (verdict == WatchVerdict::kLeaking) {
      leaking.insert(judged.row->id);
      if (suspects_.count(judged.row->id) == 0) verdict = WatchVerdict::kWarmingUp;
    }
    ++counts[verdict];
    if (sample->watched.size() >= shown) continue;
    WatchedSum row;
    row.id = judged.row->id;
    row.kind = judged.row->kind;
    row.verdict = verdict_name(verdict);
    row.objects = judged.row->objects;
    row.per_minute = judged.judgement.per_minute;
    if (const Frame* frame = naming_frame(judged.row->stack)) name_by(*frame, &row.function, &row.place);
    sample->watched.push_back(std::move(row));
  }
  suspects_ = std::move(leaking);
  for (const WatchVerdict verdict : kVerdicts) sample->verdicts.emplace_back(verdict_name(verdict), counts[verdict]);
}

}  // namespace culprit::report
