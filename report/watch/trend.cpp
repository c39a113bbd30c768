#include "report/watch/trend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace culprit::report {
namespace {

constexpr std::size_t kMostExact = 10;

double sign_of(double difference) { return difference > 0 ? 1 : difference < 0 ? -1 : 0; }

double upper_tail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

// Of n values in random order: the probability that S is at least `s`. By the number of inversions of permutations.
double exact_upper_tail(std::size_t n, double s) {
  std::vector<double> counts = {1};
  for (std::size_t i = 2; i <= n; ++i) {
    std::vector<double> next(counts.size() + i - 1, 0.0);
    for (std::size_t j = 0; j < counts.size(); ++j) {
      for (std::size_t k = 0; k < i; ++k) next[j + k] += counts[j];
    }
    counts = std::move(next);
  }
  const double pairs = static_cast<double>(n * (n - 1)) / 2;
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  double above = 0;
  for (std::size_t inversions = 0; inversions < counts.size(); ++inversions) {
    if (pairs - 2 * static_cast<double>(inversions) >= s) above += counts[inversions];
  }
  return above / all;
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::size_t left, std::size_t right) { return values[left] < values[right]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    const double rank = static_cast<double>(i + end + 1) / 2;
    for (; i < end; ++i) ranks[order[i]] = rank;
  }
  return ranks;
}

double autocorrelation(const std::vector<double>& values, std::size_t lag) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double all = 0;
  double lagged = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    all += (values[i] - mean) * (values[i] - mean);
    if (i + lag < values.size()) lagged += (values[i] - mean) * (values[i + lag] - mean);
  }
  return all > 0 ? lagged / all : 0;
}

std::vector<double> without_slope(std::vector<double> values, double slope) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= slope * static_cast<double>(i);
  return values;
}

// Hamed and Rao's factor of the variance, from the significant autocorrelations of the ranks without the trend. Never
// below 1: a negative one would make the test bolder.
double variance_factor(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const std::vector<double> ranks = ranks_of(without_slope(values, theil_sen(values).median));
  double sum = 0;
  for (std::size_t lag = 1; lag + 2 < values.size(); ++lag) {
    const double rho = autocorrelation(ranks, lag);
    const auto k = static_cast<double>(lag);
    if (std::abs(rho) > 1.96 / std::sqrt(n)) sum += (n - k) * (n - k - 1) * (n - k - 2) * rho;
  }
  return std::max(1.0, 1 + 2 / (n * (n - 1) * (n - 2)) * sum);
}

}  // namespace

Trend mann_kendall(const std::vector<double>& values) {
  Trend trend;
  const std::size_t count = values.size();
  if (count < 3) return trend;
  std::map<double, double> ties;
  for (std::size_t i = 0; i < count; ++i) {
    ++ties[values[i]];
    for (std::size_t j = i + 1; j < count; ++j) trend.s += sign_of(values[j] - values[i]);
  }
  if (count <= kMostExact && ties.size() == count) {
    trend.p_rising = exact_upper_tail(count, trend.s);
    return trend;
  }
  const auto n = static_cast<double>(count);
  double variance = n * (n - 1) * (2 * n + 5);
  for (const auto& [value, times] : ties) variance -= times * (times - 1) * (2 * times + 5);
  variance = variance / 18 * variance_factor(values);
  if (variance > 0) trend.p_rising = upper_tail((trend.s - sign_of(trend.s)) / std::sqrt(variance));
  return trend;
}

Slope theil_sen(const std::vector<double>& values) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j)
      slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
  }
  Slope slope;
  if (slopes.empty()) return slope;
  std::sort(slopes.begin(), slopes.end());
  const auto at = [&](double place) {
    const double last = static_cast<double>(slopes.size()) - 1;
    return slopes[static_cast<std::size_t>(std::min(std::max(place, 0.0), last))];
  };
  const std::size_t middle = slopes.size() / 2;
  slope.median = slopes.size() % 2 == 1 ? slopes[middle] : (slopes[middle - 1] + slopes[middle]) / 2;
  const auto n = static_cast<double>(values.size());
  const double width = 1.96 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto all = static_cast<double>(slopes.size());
  slope.low = at(std::floor((all - width) / 2));
  slope.high = at(std::ceil((all + width) / 2));
  return slope;
}

std::size_t period_of(const std::vector<double>& values) {
  constexpr double kClear = 0.3;
  const std::size_t count = values.size();
  if (count < 12) return 0;
  // The line through the means of both halves: Theil-Sen's takes the square of the time.
  const std::size_t half = count / 2;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(half);
  const double first = std::accumulate(values.begin(), middle, 0.0) / static_cast<double>(half);
  const double second = std::accumulate(middle, values.end(), 0.0) / static_cast<double>(count - half);
  const std::vector<double> flat = without_slope(values, (second - first) * 2 / static_cast<double>(count));
  std::size_t lag = 1;
  while (lag < count / 3 && autocorrelation(flat, lag) > 0) ++lag;
  std::size_t best = 0;
  double most = kClear;
  for (; lag <= count / 3; ++lag) {
    const double here = autocorrelation(flat, lag);
    if (here > most) {
      most = here;
      best = lag;
    }
  }
  return best;
}

}  // namespace culprit::report
