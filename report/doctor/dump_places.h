// Where the dumps are of the processes that a command looks at again and again: of those that it was given, or of all
// that record on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/doctor/nvml_question.h"
#include "report/proc/proc_facts.h"

namespace culprit::report {

// The dump of one process.
struct DumpPlace {
  std::uint32_t pid = 0;         // 0: `dump` is a file here
  std::string dump;              // as a path inside the root of the process; "": it has none, or none yet
  std::string problem;           // why there can be none; "": the dump can be read, or comes with the first CUDA call
  bool without_library = false;  // the problem: culprit attach helps
  std::string target;            // as it was named; "": it was found

  // Tells the dumps of a machine apart.
  std::string key() const;
};

// `target`: a process by its pid (for one of `culprit run` that of its command), or the path of a dump.
DumpPlace place_of(const std::string& proc, const std::string& target);

// From one thread. Asks NVML in a copy of the process.
class DumpPlaces {
 public:
  // `targets`: processes by pid, and dumps; none: all processes that record, and which of them there are is looked up
  // each time.
  explicit DumpPlaces(std::vector<std::string> targets);

  const std::string& proc() const { return proc_; }
  bool finds_all() const { return targets_.empty(); }

  // NVML's figures; a library that has failed once is not asked again.
  GpuUsers ask();

  // `users`: the last answer of ask(). Each process once. Those of the targets may have a problem.
  std::vector<DumpPlace> find(const GpuUsers& users) const;

 private:
  const std::string proc_;
  const std::vector<std::string> targets_;
  NvmlQuestion question_;
  bool has_nvml_ = true;
};

}  // namespace culprit::report
