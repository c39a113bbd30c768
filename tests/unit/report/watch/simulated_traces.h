// Programs of which it is known whether they leak, simulated allocation by allocation, as `culprit watch` would see one
// row of them. Time is simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/watch/history.h"

namespace culprit::report {

struct Trace {
  std::string name;
  bool leaks = false;
  History history;  // with one row
};

// The kinds of programs; the first half of them leaks.
constexpr std::size_t kTraceKinds = 22;
constexpr std::size_t kLeakingKinds = 11;

// How far the parameters of a trace vary: the ranges that the method was made with, or wider ones.
enum class Ranges { kTuned, kWide };

Trace simulate(std::size_t kind, std::uint64_t seed, Ranges ranges);

// 1 MiB a minute is lost, under 1 GiB a second that is allocated and freed, from the same line. `leaks`: or nothing.
Trace churn_of_a_gibibyte(double minutes, bool leaks);

}  // namespace culprit::report
