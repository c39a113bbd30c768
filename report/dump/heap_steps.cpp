#include "report/dump/heap_steps.h"

#include <algorithm>

namespace culprit::report {

std::vector<format::HeapStepRecord> steps_to(const Dump& dump, format::Ref last) {
  // The library writes 24 at most. Steps of a damaged dump may lead to one another.
  constexpr std::size_t kMost = 32;
  std::vector<format::HeapStepRecord> steps;
  for (format::Ref ref = last; ref != 0; ref = steps.back().parent) {
    format::HeapStepRecord record;
    if (steps.size() == kMost || !dump.heap_step(ref, &record)) return {};
    steps.push_back(record);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

}  // namespace culprit::report
