// Where the dumps are of the processes that a command looks at again and again: of those that it was given, or of all
// that record on this machine.
#pragma once

#include <chrono>
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
  explicit DumpPlaces(std::vector<std::string> targets, std::chrono::milliseconds longest_question = kLongestQuestion);

  const std::string& proc() const { return proc_; }
  bool finds_all() const { return targets_.empty(); }

  // NVML's figures; nothing while no question is due. NVML that refused is not asked again. A question that it left
  // open (a machine that was busy, a driver that was reset) is put again after `kFirstPause`, then after twice as long,
  // once the copy that asked could be ended: copies that hang in the kernel do not add up.
  GpuUsers ask(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  static constexpr std::chrono::seconds kFirstPause{30};
  static constexpr std::chrono::hours kLongestPause{1};

  // `users`: the last answer of ask(). Each process once. Those of the targets may have a problem.
  std::vector<DumpPlace> find(const GpuUsers& users) const;

 private:
  const std::string proc_;
  const std::vector<std::string> targets_;
  NvmlQuestion question_;
  bool asks_nvml_ = true;
  bool has_nvml_ = true;  // it answered the last question, or was not asked yet
  std::chrono::seconds pause_ = kFirstPause;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::time_point::min();
};

}  // namespace culprit::report
