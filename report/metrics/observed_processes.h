// Finds processes that record and reads their dumps again and again. A dump is a file that its process shares with its
// readers: the process is not stopped, and does nothing for a look.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/attach/torch_allocator.h"
#include "report/doctor/dump_places.h"
#include "report/metrics/process_sample.h"
#include "report/metrics/row_verdicts.h"
#include "report/symbols/shared_symbols.h"

namespace culprit::report {

// Most processes that are observed at a time.
inline constexpr std::size_t kMostObserved = 256;

// Rows of all processes whose verdicts are followed: each takes 16 KiB.
inline constexpr std::size_t kMostWatchedRows = 8192;

// From one thread. Asks NVML in a copy of the process.
class ObservedProcesses {
 public:
  // `targets`: processes by pid, and dumps; none: all processes that record, and which of them there are is looked up
  // at each look.
  // `again`: there will be many looks, which give verdicts on growth.
  ObservedProcesses(const std::vector<std::string>& targets, const SampleLimits& limits, bool again = false);

  // Throws DumpError when a target cannot be read now.
  void check_targets() const;

  Observation look();

 private:
  // The highest counts of a process so far. A count may be read while a thread adds its part: it must not go down.
  struct Counts {
    std::uint64_t start_ns = 0;
    std::uint64_t counts[4] = {};
  };

  ProcessSample read(const DumpPlace& place, const GpuUsers& users);
  std::vector<CacheBytes> inside_of(const DumpPlace& place);
  void judge(const Dump& dump, const DumpPlace& place, const GpuUsers& users, ProcessSample* sample);
  SharedSymbols* symbols_of(const DumpPlace& place);
  void never_less(ProcessSample* sample);

  const std::vector<std::string> targets_;
  const SampleLimits limits_;
  const bool again_;
  DumpPlaces places_;
  std::map<std::string, std::unique_ptr<SharedSymbols>> symbols_;  // by DumpPlace::key()
  std::map<std::string, std::unique_ptr<RowVerdicts>> verdicts_;   // likewise
  std::map<std::string, TorchAllocator> torch_;                    // likewise
  std::map<std::uint32_t, Counts> counts_;                         // by pid
};

}  // namespace culprit::report
