#include "report/watch/history.h"

#include <algorithm>
#include <utility>

namespace culprit::report {
namespace {

constexpr std::size_t kMostTimes = 480;
constexpr std::size_t kMostSurvivors = 32;

// Pairs of parts become one. Part 0, the time before the watch, stays.
void merge_parts(Births* births) {
  if (births->empty()) return;
  Births merged(BirthScale::kParts, 0.0F);
  for (std::size_t part = 0; part < births->size(); ++part) merged[(part + 1) / 2] += (*births)[part];
  *births = std::move(merged);
}

}  // namespace

const BirthScale& History::begin(double seconds) {
  if (samples_ == 0) scale_.begin = seconds;
  // The scale is widened when it is full, and never made finer: the second sample may be a late one.
  if (samples_ == 1) scale_.width = std::max((seconds - scale_.begin) / (BirthScale::kParts - 1), 1e-6);
  now_ = seconds;
  while (seconds >= scale_.begin_of(BirthScale::kParts)) widen_scale();
  next_.assign(rows_.size(), RowSample());
  return scale_;
}

std::size_t History::add_row() {
  RowHistory row;
  row.low.assign(times_.size(), 0.0);
  row.high.assign(times_.size(), 0.0);
  row.survivors.assign(survivor_times_.size(), Births());
  rows_.push_back(std::move(row));
  next_.emplace_back();
  return rows_.size() - 1;
}

void History::end() {
  if (times_.size() >= kMostTimes && samples_ % every_ == 0) halve_times();
  const bool new_time = samples_ % every_ == 0;
  const bool keeps = samples_ % survivors_every_ == 0;
  if (keeps && survivor_times_.size() >= kMostSurvivors) halve_survivors();
  if (new_time) {
    times_.push_back(now_);
  } else {
    times_.back() = now_;
  }
  if (keeps) survivor_times_.push_back(now_);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    RowHistory& row = rows_[i];
    const double live = next_[i].live;
    if (new_time) {
      row.low.push_back(live);
      row.high.push_back(live);
    } else {
      row.low.back() = std::min(row.low.back(), live);
      row.high.back() = std::max(row.high.back(), live);
    }
    if (keeps) row.survivors.push_back(next_[i].births);
    // A row that has nothing live may have been made before.
    next_[i].made = std::max(next_[i].made, row.last.made);
    row.last = std::move(next_[i]);
  }
  ++samples_;
}

void History::widen_scale() {
  scale_.width *= 2;
  for (RowHistory& row : rows_) {
    for (Births& births : row.survivors) merge_parts(&births);
    merge_parts(&row.last.births);
  }
}

void History::halve_times() {
  const std::size_t half = times_.size() / 2;
  for (std::size_t i = 0; i < half; ++i) times_[i] = times_[2 * i + 1];
  times_.resize(half);
  for (RowHistory& row : rows_) {
    for (std::size_t i = 0; i < half; ++i) {
      row.low[i] = std::min(row.low[2 * i], row.low[2 * i + 1]);
      row.high[i] = std::max(row.high[2 * i], row.high[2 * i + 1]);
    }
    row.low.resize(half);
    row.high.resize(half);
  }
  every_ *= 2;
}

void History::halve_survivors() {
  const std::size_t half = survivor_times_.size() / 2;
  for (std::size_t i = 0; i < half; ++i) survivor_times_[i] = survivor_times_[2 * i];
  survivor_times_.resize(half);
  for (RowHistory& row : rows_) {
    for (std::size_t i = 0; i < half; ++i) row.survivors[i] = std::move(row.survivors[2 * i]);
    row.survivors.resize(half);
  }
  survivors_every_ *= 2;
}

}  // namespace culprit::report
