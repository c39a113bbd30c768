#include "report/watch/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/watch/trend.h"

namespace culprit::report {
namespace {

constexpr std::size_t kWindows = 24;
constexpr std::size_t kLeastWindows = 5;  // after the warm-up: with fewer Mann-Kendall cannot reach kRare
constexpr double kWarmUp = 0.25;          // of the time
constexpr double kRare = 0.01;            // the highest probability of a trend by chance
constexpr double kMostConfidence = 0.99;
constexpr std::size_t kLeastSamplesOfTooth = 6;
constexpr std::size_t kLeastRises = 6;
constexpr std::size_t kFewRises = 10;   // with fewer, the warm-up counts: first uses come later and later
constexpr double kMostInWarmUp = 0.42;  // of all that survives, in its quarter of the time

// The least that was live in each window of time: all windows have the same length, and the last one ends now.
struct Minima {
  double length = 0;           // seconds
  std::vector<double> values;  // of all windows
  std::size_t skipped = 0;     // those of the warm-up
  std::vector<double> after_warm_up() const {
    return {values.begin() + static_cast<std::ptrdiff_t>(skipped), values.end()};
  }
};

Minima minima_of(const std::vector<double>& times, const std::vector<double>& low, double length) {
  Minima minima;
  minima.length = length;
  const double end = times.back();
  const auto count = static_cast<std::size_t>((end - times.front()) / length + 1e-9);
  minima.values.assign(count, std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto back = static_cast<std::size_t>((end - times[i]) / length);
    if (back < count) minima.values[count - 1 - back] = std::min(minima.values[count - 1 - back], low[i]);
  }
  // A window without a sample: nothing is known of it.
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isinf(minima.values[i])) minima.values[i] = i == 0 ? low.front() : minima.values[i - 1];
  }
  minima.skipped = static_cast<std::size_t>(std::ceil(static_cast<double>(count) * kWarmUp));
  return minima;
}

// The course of the minima: how often they reached a new height, and how much of it in the last half.
struct Course {
  std::size_t rises = 0;
  std::size_t rises_late = 0;  // in the last half
  std::size_t flat_end = 0;    // windows without a rise at the end
  double rise = 0;
  double late_share = 0;  // of `rise`, in the last half
  double given_back = 0;  // the deepest fall
};

Course course_of(const std::vector<double>& values) {
  Course course;
  double highest = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    course.given_back = std::max(course.given_back, highest - values[i]);
    ++course.flat_end;
    if (values[i] <= highest) continue;
    highest = values[i];
    ++course.rises;
    if (2 * i >= values.size()) ++course.rises_late;
    course.flat_end = 0;
  }
  course.rise = values.back() - values.front();
  const double late = values.back() - values[(values.size() - 1) / 2];
  if (course.rise > 0) course.late_share = late / course.rise;
  return course;
}

// `base` to that power. Not std::pow(), whose newest version is of glibc 2.29: the packages run with 2.28.
double power(double base, std::size_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent /= 2, base *= base) {
    if (exponent % 2 != 0) result *= base;
  }
  return result;
}

// Whether it levels off. The fewer the rises, the more of them may have come early by chance.
bool is_fading(const Course& course, std::size_t windows) {
  const auto rises = static_cast<double>(course.rises);
  const double least = std::min(0.32, std::max(0.1, 0.1 + (rises - 4) * 0.0275));
  if (course.late_share < least) return true;
  const auto before = static_cast<double>(windows - 1 - course.flat_end);
  if (course.flat_end == 0 || before < 4) return false;
  // As many windows without a rise, by chance, if the rate were that of the time before.
  const double missing = std::max(1 - rises / before, 0.5 / before);
  return power(missing, course.flat_end) < kRare;
}

// How the allocations that were made after the warm-up survive.
struct Survivors {
  bool known = false;
  bool in_each_third = false;
  bool in_last_third = false;
  double persisting = 0;  // the part of those that were old earlier, and still live
  double per_second = 0;
  double warm_up_share = 0;  // of all that the watch saw made, and that survives
};

// `young`: seconds; younger ones may be in use.
Survivors survivors_of(const History& history, const RowHistory& row, double warm, double young) {
  Survivors result;
  const Births& now = row.last.births;
  const double end = history.times().back() - young;
  if (now.empty() || end <= warm) return result;
  result.known = true;
  const BirthScale& scale = history.scale();
  double thirds[3] = {};
  // Parts that lie in the interval as a whole.
  const auto kept = [&](const Births& births, double until, bool count) {
    double sum = 0;
    for (std::size_t part = 1; part < births.size(); ++part) {
      const double begin = scale.begin_of(part);
      if (begin < warm || begin + scale.width > until) continue;
      sum += births[part];
      const auto third = static_cast<std::size_t>(3 * (begin - warm) / (end - warm));
      if (count) thirds[std::min<std::size_t>(third, 2)] += births[part];
    }
    return sum;
  };
  const double all = kept(now, end, true);
  result.in_each_third = thirds[0] > 0 && thirds[1] > 0 && thirds[2] > 0;
  result.in_last_third = thirds[2] > 0;
  result.per_second = all / (end - warm);
  double before = 0;
  for (std::size_t part = 1; part < now.size() && scale.begin_of(part) + scale.width <= warm; ++part)
    before += now[part];
  if (before + all > 0) result.warm_up_share = before / (before + all);
  // The survivors of a moment in the middle, which were old then.
  const std::vector<double>& moments = history.survivor_times();
  const double middle = warm + (history.times().back() - warm) * 0.6;
  std::size_t at = moments.size();
  while (at > 0 && moments[at - 1] > middle) --at;
  if (at == 0 || row.survivors[at - 1].empty()) return result;
  const double until = moments[at - 1] - young;
  const double then = kept(row.survivors[at - 1], until, false);
  if (then > 0) result.persisting = kept(now, until, false) / then;
  return result;
}

// All that was live at some moments, without the young: short-lived memory of any size is not in it.
std::vector<double> old_ones(const History& history, const RowHistory& row, double warm, double young) {
  std::vector<double> values;
  const BirthScale& scale = history.scale();
  for (std::size_t i = 0; i < row.survivors.size(); ++i) {
    const double moment = history.survivor_times()[i];
    if (moment < warm || row.survivors[i].empty()) continue;
    double sum = 0;
    for (std::size_t part = 0; part < BirthScale::kParts; ++part) {
      if (part == 0 || scale.begin_of(part) + scale.width <= moment - young) sum += row.survivors[i][part];
    }
    values.push_back(sum);
  }
  return values;
}

// The falls by more than half of the whole range, and the least that was live between two of them.
struct Teeth {
  std::size_t falls = 0;
  std::vector<double> troughs;
  double range = 0;
  // It comes back to where it was.
  bool are_level() const {
    return falls >= 2 && troughs.size() >= 2 && troughs.back() - troughs.front() <= 0.1 * range;
  }
};

Teeth teeth_of(const RowHistory& row) {
  Teeth teeth;
  const double top = *std::max_element(row.high.begin(), row.high.end());
  const double bottom = *std::min_element(row.low.begin(), row.low.end());
  teeth.range = top - bottom;
  if (teeth.range < 0.25 * top) return teeth;
  bool climbs = true;
  double extreme = row.low.front();
  for (std::size_t i = 0; i < row.low.size(); ++i) {
    extreme = climbs ? std::max(extreme, row.high[i]) : std::min(extreme, row.low[i]);
    if (climbs && extreme - row.low[i] >= 0.5 * teeth.range) {
      climbs = false;
      extreme = row.low[i];
      ++teeth.falls;
      teeth.troughs.push_back(extreme);
    } else if (!climbs) {
      teeth.troughs.back() = extreme;
      if (row.high[i] - extreme < 0.5 * teeth.range) continue;
      climbs = true;
      extreme = row.high[i];
    }
  }
  return teeth;
}

bool gives_back(const Course& course) { return course.given_back > 0.5 * std::max(course.rise, 0.0); }

// The figures of values at a distance of `seconds`.
Course add_trend(const std::vector<double>& values, double seconds, RowJudgement* judgement) {
  const Course course = course_of(values);
  const Slope slope = theil_sen(values);
  const double per_minute = 60 / seconds;
  judgement->per_minute = slope.median * per_minute;
  judgement->lowest = slope.low * per_minute;
  judgement->highest = slope.high * per_minute;
  // A few steps: most pairs of values are equal.
  if (slope.median == 0) judgement->per_minute = course.rise * per_minute / static_cast<double>(values.size() - 1);
  judgement->p_rising = mann_kendall(values).p_rising;
  return course;
}

bool is_rising(const Course& course, const RowJudgement& judgement) {
  return judgement.p_rising < kRare && course.rise > 0 && !gives_back(course) && course.rises >= kLeastRises;
}

RowJudgement with(RowJudgement judgement, WatchVerdict verdict, double confidence) {
  judgement.verdict = verdict;
  judgement.confidence = std::min(kMostConfidence, std::max(0.0, confidence));
  return judgement;
}

// Too short a time, or too few repetitions of a pattern.
RowJudgement judge_early(const RowHistory& row, RowJudgement judgement) {
  if (row.low.size() >= kLeastTimes && teeth_of(row).are_level()) return with(judgement, WatchVerdict::kSawTooth, 0.8);
  const auto middle = row.low.begin() + static_cast<std::ptrdiff_t>(row.low.size() / 2);
  const double before = *std::min_element(row.low.begin(), middle);
  const double after = *std::min_element(middle, row.low.end());
  return after > before ? with(judgement, WatchVerdict::kWarmingUp, 0)
                        : with(judgement, WatchVerdict::kSteady, row.low.size() < kLeastTimes ? 0.5 : 0.8);
}

}  // namespace

const char* verdict_name(WatchVerdict verdict) {
  switch (verdict) {
    case WatchVerdict::kLeaking:
      return "leaking";
    case WatchVerdict::kWarmingUp:
      return "warming-up";
    case WatchVerdict::kFillingACache:
      return "filling-a-cache";
    case WatchVerdict::kSawTooth:
      return "saw-tooth";
    case WatchVerdict::kSteady:
      break;
  }
  return "steady";
}

const char* verdict_title(WatchVerdict verdict) {
  switch (verdict) {
    case WatchVerdict::kLeaking:
      return "LEAKING";
    case WatchVerdict::kWarmingUp:
      return "WARMING UP";
    case WatchVerdict::kFillingACache:
      return "FILLING A CACHE";
    case WatchVerdict::kSawTooth:
      return "SAW-TOOTH";
    case WatchVerdict::kSteady:
      break;
  }
  return "STEADY";
}

RowJudgement judge_row(const History& history, const RowHistory& row, double least_per_minute) {
  RowJudgement judgement;
  const std::vector<double>& times = history.times();
  if (times.size() < 2) return with(judgement, WatchVerdict::kWarmingUp, 0);
  if (times.size() < kLeastTimes) return judge_early(row, judgement);
  const double span = times.back() - times.front();
  const double step = span / static_cast<double>(times.size() - 1);
  judgement.period = static_cast<double>(period_of(row.low)) * step;
  // The least in each repetition of a pattern has no season in it.
  const double shortest = span / static_cast<double>(std::min(kWindows, times.size() / 2));
  const Minima minima = minima_of(times, row.low, std::max(shortest, judgement.period));
  const std::vector<double> used = minima.after_warm_up();
  if (used.size() < kLeastWindows) return judge_early(row, judgement);

  const double warm = times.back() - minima.length * static_cast<double>(used.size());
  const double young = 1.5 * minima.length;
  const Survivors survivors = survivors_of(history, row, warm, young);
  judgement.kept_per_minute = survivors.per_second * 60;
  Course course = add_trend(used, minima.length, &judgement);
  std::size_t windows = used.size();
  if (!is_rising(course, judgement)) {
    const std::vector<double> old = old_ones(history, row, warm, young);
    RowJudgement of_old = judgement;
    if (old.size() >= 2 * kLeastWindows) {
      const double distance = (times.back() - warm) / static_cast<double>(old.size());
      const Course old_course = add_trend(old, distance, &of_old);
      if (is_rising(old_course, of_old)) {
        course = old_course;
        judgement = of_old;
        windows = old.size();
      }
    }
  }
  if (!is_rising(course, judgement)) {
    // Teeth of a few samples are single allocations that come and go.
    const std::size_t falls = teeth_of(row).falls;
    if (falls >= 2 && falls <= times.size() / kLeastSamplesOfTooth)
      return with(judgement, WatchVerdict::kSawTooth, 0.9);
    // It began to grow late.
    const bool late = course.rises_late >= 3 && !gives_back(course) && course.flat_end < 3 &&
                      (!survivors.known || survivors.in_last_third);
    if (late) return with(judgement, WatchVerdict::kWarmingUp, 0);
    return with(judgement, WatchVerdict::kSteady, judgement.p_rising);
  }
  if (is_fading(course, windows) || (course.rises < kFewRises && survivors.warm_up_share > kMostInWarmUp))
    return with(judgement, WatchVerdict::kFillingACache, 1 - course.late_share);
  if (survivors.known && !survivors.in_each_third) {
    // The early ones are gone: larger and larger batches. Or the early ones never were.
    const bool late = survivors.in_last_third && survivors.persisting >= 0.8;
    return with(judgement, late ? WatchVerdict::kWarmingUp : WatchVerdict::kSteady, late ? 0 : 0.8);
  }
  if (survivors.known && survivors.persisting < 0.75)
    return with(judgement, WatchVerdict::kSteady, 1 - survivors.persisting);
  // Without times of birth the minima alone must be beyond doubt.
  if (!survivors.known && (judgement.p_rising > kRare / 10 || course.rises < 2 * kLeastRises))
    return with(judgement, WatchVerdict::kWarmingUp, 0);
  if (judgement.per_minute < least_per_minute) return with(judgement, WatchVerdict::kSteady, 1 - judgement.p_rising);
  return with(judgement, WatchVerdict::kLeaking,
              (1 - judgement.p_rising) * (survivors.known ? std::min(1.0, survivors.persisting) : 0.9));
}

}  // namespace culprit::report
