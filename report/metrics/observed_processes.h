// Finds processes that record and reads their dumps again and again. A dump is a file that its process shares with its
// readers: the process is not stopped, and does nothing for a look.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/doctor/nvml_question.h"
#include "report/metrics/process_sample.h"
#include "report/proc/proc_facts.h"
#include "report/symbols/shared_symbols.h"

namespace culprit::report {

// Most processes that are observed at a time.
inline constexpr std::size_t kMostObserved = 256;

// From one thread. Asks NVML in a copy of the process.
class ObservedProcesses {
 public:
  // `targets`: processes by pid, and dumps; none: all processes that record, and which of them there are is looked up
  // at each look.
  ObservedProcesses(const std::vector<std::string>& targets, const SampleLimits& limits);

  // Throws DumpError when a target cannot be read now.
  void check_targets() const;

  Observation look();

 private:
  // Where the dump of a process is.
  struct Place {
    std::uint32_t pid = 0;  // 0: `dump` is a file here
    std::string dump;       // as a path inside the root of the process
  };
  // The highest counts of a process so far. A count may be read while a thread adds its part: it must not go down.
  struct Counts {
    std::uint64_t start_ns = 0;
    std::uint64_t counts[4] = {};
  };

  static std::string key_of(const Place& place);
  Place place_of(const std::string& target) const;
  std::vector<Place> places(const GpuUsers& users, std::uint64_t* left_out) const;
  GpuUsers ask();
  ProcessSample read(const Place& place, const GpuUsers& users);
  SharedSymbols* symbols_of(const Place& place);
  void never_less(ProcessSample* sample);

  const std::string proc_;
  const std::vector<std::string> targets_;
  const SampleLimits limits_;
  NvmlQuestion question_;
  bool has_nvml_ = true;                                           // false: it has failed once, and is not asked again
  std::map<std::string, std::unique_ptr<SharedSymbols>> symbols_;  // by pid and path
  std::map<std::uint32_t, Counts> counts_;                         // by pid
};

}  // namespace culprit::report
