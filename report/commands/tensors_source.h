// Where `culprit tensors` gets its caches from: the view beside a dump, a running process, or the command's own JSON.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "report/model/cache_inside.h"

namespace culprit::report {

struct TensorsView {
  std::string name;  // a path, or "python3 train.py [4242]"
  std::vector<CacheInside> caches;
};

struct ProcessLimits {
  std::chrono::milliseconds step{10000};          // for each step in a process
  std::chrono::microseconds longest_stop{50000};  // of its interpreter
};

// `source`: a dump, the number of a process, or a file that `culprit tensors --format json` wrote. A process without
// libculprit.so is attached for the moment. Throws std::runtime_error with the reason.
TensorsView tensors_of(const std::string& source, const ProcessLimits& limits);

}  // namespace culprit::report
