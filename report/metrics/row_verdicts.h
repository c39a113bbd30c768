// The verdicts of `culprit watch` (watch/verdict.h) for a process that is observed again and again, of limited size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/dump/dump_clock.h"
#include "report/metrics/process_sample.h"
#include "report/watch/watched_process.h"

namespace culprit::report {

class Dump;

// Not thread-safe.
class RowVerdicts {
 public:
  explicit RowVerdicts(SymbolLookup lookup) : process_(std::move(lookup)) {}

  // Takes one more look at a running process, and puts the verdicts into `sample`. `answers`: NVML's, by UUID. `rows`:
  // how many may be watched; `shown`: how many have series of their own. Throws DumpError.
  void look(const Dump& dump, const std::map<std::string, DeviceAnswer>& answers, std::size_t rows, std::size_t shown,
            ProcessSample* sample);

  std::size_t rows() const { return process_.history().rows().size(); }

 private:
  WatchedProcess process_;
  DumpClock clock_;
  std::set<std::string> suspects_;  // ids that leaked at the last look
};

}  // namespace culprit::report
