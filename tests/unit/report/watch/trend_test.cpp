#include "report/watch/trend.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../../catch.h"
#include "report/watch/history.h"
#include "report/watch/verdict.h"

using namespace culprit::report;

namespace {

void add_sample(History* history, double time, double live) {
  history->begin(time);
  if (history->rows().empty()) history->add_row();
  RowSample sample;
  sample.live = live;
  history->set(0, sample);
  history->end();
}

}  // namespace

TEST_CASE("Mann-Kendall has the probabilities of its tables") {
  // M. G. Kendall, "Rank correlation methods", table 1: S = 8 of n = 5 has 0.042, S = 10 has 0.0083.
  CHECK(mann_kendall({1, 2, 3, 5, 4}).p_rising == Approx(5.0 / 120));
  CHECK(mann_kendall({1, 2, 3, 4, 5}).p_rising == Approx(1.0 / 120));
  CHECK(mann_kendall({5, 4, 3, 2, 1}).p_rising == Approx(1));
  CHECK(mann_kendall({1, 2, 3, 4, 5}).s == 10);
  CHECK(mann_kendall({1, 1, 1, 1, 1, 1}).p_rising == 1);
}

TEST_CASE("Mann-Kendall of many values uses the normal approximation, and corrects it for ties and autocorrelation") {
  std::vector<double> rising;
  std::vector<double> without;
  std::vector<double> wave;
  for (int i = 0; i < 30; ++i) {
    rising.push_back(i / 3);
    without.push_back(i * 7 % 11);
    wave.push_back(std::sin(i / 4.0));
  }
  CHECK(mann_kendall(rising).p_rising < 1e-6);
  CHECK(mann_kendall(without).p_rising > 0.05);
  CHECK(mann_kendall(wave).p_rising > 0.05);
}

TEST_CASE("Theil-Sen is not misled by a third of wrong values, and gives an interval") {
  std::vector<double> values;
  for (int i = 0; i < 30; ++i) values.push_back(i % 5 == 0 ? 1000.0 : 2.0 * i + (i % 2 == 0 ? 0.1 : -0.1));
  const Slope slope = theil_sen(values);
  CHECK(slope.median == Approx(2).epsilon(0.05));
  CHECK(slope.low <= slope.median);
  CHECK(slope.high >= slope.median);
  CHECK(theil_sen({1}).median == 0);
}

TEST_CASE("The period of a pattern is found, also above a trend") {
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) values.push_back(i % 25 + i * 0.5);
  CHECK(period_of(values) == 25);
  std::vector<double> line;
  for (int i = 0; i < 200; ++i) line.push_back(i);
  CHECK(period_of(line) == 0);
  CHECK(period_of({1, 2, 3}) == 0);
}

TEST_CASE("A history keeps the extremes in room of a fixed size") {
  History history;
  for (int i = 0; i < 100000; ++i) add_sample(&history, i, i == 50001 ? 1000 : i == 70001 ? 0 : 10);
  const RowHistory& row = history.rows().front();
  CHECK(history.times().size() <= 480);
  CHECK(history.survivor_times().size() <= 32);
  CHECK(row.survivors.size() == history.survivor_times().size());
  CHECK(*std::max_element(row.high.begin(), row.high.end()) == 1000);
  CHECK(*std::min_element(row.low.begin(), row.low.end()) == 0);
  CHECK(history.times().back() == 99999);
  CHECK(history.scale().part_of(99999) < BirthScale::kParts);
}

TEST_CASE("Births keep their time when the scale is widened") {
  History history;
  for (int i = 0; i <= 1000; ++i) {
    const BirthScale scale = history.begin(i);
    if (history.rows().empty()) history.add_row();
    RowSample sample;
    sample.live = i >= 100 ? 5 : 0;
    sample.births.assign(BirthScale::kParts, 0.0F);
    sample.births[scale.part_of(100)] = static_cast<float>(sample.live);
    history.set(0, sample);
    history.end();
  }
  const BirthScale scale = history.scale();
  for (const Births& births : history.rows().front().survivors) {
    for (std::size_t part = 0; part < births.size(); ++part) {
      if (births[part] != 0) CHECK(part == scale.part_of(100));
    }
  }
  CHECK(scale.part_of(-1) == 0);
}

TEST_CASE("A second sample that comes late leaves times of birth exact enough to find a leak") {
  History history;
  for (double now : {0.0, 0.5}) add_sample(&history, now, 0);
  for (int i = 1; i <= 60; ++i) {
    const double now = 0.5 + i * 0.025;
    const BirthScale scale = history.begin(now);
    RowSample sample;
    sample.live = i;
    sample.births.assign(BirthScale::kParts, 0.0F);
    for (int born = 1; born <= i; ++born) sample.births[scale.part_of(0.5 + born * 0.025)] += 1;
    history.set(0, sample);
    history.end();
  }
  CHECK(judge_row(history, history.rows().front(), 0).verdict == WatchVerdict::kLeaking);
}

TEST_CASE("After a few samples of a row that grows nothing is known yet") {
  History history;
  for (int i = 0; i < 10; ++i) add_sample(&history, i, i * 100);
  CHECK(judge_row(history, history.rows().front(), 0).verdict == WatchVerdict::kWarmingUp);
}

TEST_CASE("Without times of birth only a long course of rises is a leak") {
  History history;
  for (int i = 0; i < 200; ++i) add_sample(&history, i, i * 100);
  const RowJudgement found = judge_row(history, history.rows().front(), 0);
  CHECK(found.verdict == WatchVerdict::kLeaking);
  CHECK(found.per_minute == Approx(6000).epsilon(0.01));
  CHECK(judge_row(history, history.rows().front(), 7000).verdict == WatchVerdict::kSteady);
  History steps;
  for (int i = 0; i < 200; ++i) add_sample(&steps, i, i / 33);
  CHECK(judge_row(steps, steps.rows().front(), 0).verdict != WatchVerdict::kLeaking);
}

TEST_CASE("A row that appears late has had nothing live before") {
  History history;
  for (int i = 0; i < 40; ++i) {
    history.begin(i);
    if (i == 30) history.add_row();
    if (i >= 30) history.set(0, RowSample{7, 1, {}});
    history.end();
  }
  const RowHistory& row = history.rows().front();
  CHECK(row.low.size() == history.times().size());
  CHECK(row.low.front() == 0);
  CHECK(row.low.back() == 7);
  CHECK(judge_row(history, row, 0).verdict == WatchVerdict::kSteady);
}
