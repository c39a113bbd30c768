// Watches the dumps of a run. When a process records that an allocation failed with out of memory, NVML is asked which
// processes have memory on that device, and the answer goes to a file next to the dump (judge/gpu_answers.h). The
// program itself takes no part in it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/doctor/nvml_question.h"
#include "report/dump/growing_dump.h"
#include "report/dump/run_dumps.h"
#include "report/load/gpu_answers.h"

namespace culprit::report {

class FailureWatch {
 public:
  // The dumps after `pattern` of this run.
  FailureWatch(std::string pattern, RunOfDumps run);

  // Looks at the dumps, asks, and takes answers, without waiting for anything. Returns the time until the next look is
  // due: looks take about a hundredth of the time. Never throws.
  std::chrono::milliseconds look();

  // When the program has ended: asks about the failures that have no answer yet, and waits for it. Never throws.
  void finish();

 private:
  // The failures of a process, and the answers so far.
  struct Watched {
    explicit Watched(const std::string& path) : dump(path) {}
    bool ended() const { return dump.header().process_state == format::ProcessState::kExited; }
    GrowingDump dump;
    std::map<unsigned, std::uint64_t> failed_ns;    // the last failure on each device
    std::map<unsigned, std::uint64_t> answered_ns;  // the failure that the last answer is for
    std::vector<GpuAnswer> answers;
  };
  // The reason of a question.
  struct Asked {
    std::string dump;
    unsigned device = 0;
    std::uint64_t failed_ns = 0;
    std::uint64_t asked_realtime_ns = 0;
    bool after_end = false;
  };

  void look_at_dumps();
  void look_at(const std::string& dump);
  bool has_ended(const Watched& watched) const;
  void ask();
  void take(const GpuUsers& users);
  void take_answer();
  GpuCharges charges_of(const GpuUsers& users, const Watched& watched, const Asked& asked) const;

  const std::string pattern_;
  const RunOfDumps run_;
  const std::uint64_t pid_namespace_;
  NvmlQuestion question_;
  bool asking_ = false;
  GpuUsers unanswered_;  // the answer to a question that NVML left open: it is not asked again
  bool program_ended_ = false;
  std::chrono::steady_clock::time_point next_question_;
  std::chrono::seconds pause_{1};
  std::vector<Asked> asked_;
  std::map<std::string, Watched> dumps_;
};

}  // namespace culprit::report
