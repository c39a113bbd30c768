// Tests of trend over a few values at equal distances. No library for C++ that Debian has contains them (Boost.Math has
// tests for means and runs; the known one, pyMannKendall, is Python).
#pragma once

#include <cstddef>
#include <vector>

namespace culprit::report {

// Mann-Kendall: H. B. Mann, "Nonparametric tests against trend", Econometrica 13 (1945); M. G. Kendall, "Rank
// correlation methods" (1975). The variance is corrected for ties, and for autocorrelation after K. H. Hamed and A. R.
// Rao, "A modified Mann-Kendall trend test for autocorrelated data", Journal of Hydrology 204 (1998). Up to ten values
// without ties the distribution is the exact one.
struct Trend {
  double s = 0;         // pairs that rise, less pairs that fall
  double p_rising = 1;  // probability of such an S, or a higher one, without a trend
};
Trend mann_kendall(const std::vector<double>& values);

// Theil-Sen: P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968). By step from
// one value to the next; `low` and `high`: the interval of 95%.
struct Slope {
  double median = 0;
  double low = 0;
  double high = 0;
};
Slope theil_sen(const std::vector<double>& values);

// The length of the repeated pattern, in steps: the first maximum of the autocorrelation after its first zero, of the
// values without their linear trend. 0: none is clear. One that did not repeat three times is none.
std::size_t period_of(const std::vector<double>& values);

}  // namespace culprit::report
