// Compares the processes that NVML charges with memory with those of a `culprit run` that began to record: one that
// NVML names, that is of the run, and that began no record, has used CUDA unseen. NVML knows such a process also where
// its maps tell nothing: a driver of another name, calls past the hooks, another user's process.
//
// NVML is asked in a copy of this process, from the first second of the run on, and only while a process lives of which
// it is not known that it records. So a short program, and one whose processes all record, cost no question.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/attach/untold_starts.h"
#include "report/doctor/nvml_question.h"

namespace culprit::report {

struct UnseenProcess {
  int pid = 0;
  std::uint32_t own_number = 0;  // in its innermost PID namespace; 0: not known
  std::uint64_t start_ticks = 0;
  std::string program;
  OfRun of_run = OfRun::kYes;
  std::map<std::string, std::uint64_t> bytes;  // the most that was seen, by device: "GPU 0"; 0: NVML gives no figure
};

class RunCharges {
 public:
  // `processes` lives longer.
  explicit RunCharges(const UntoldStarts& processes);

  // Asks, and takes answers, without waiting for anything.
  void look();
  // When the command has ended, and its processes were looked at for the last time. Waits for at most a second.
  void finish();

  // That used CUDA and did not tell that they record. The caller knows the dumps.
  std::vector<UnseenProcess> found() const;
  // Sentences: what could not be looked at. None where no question was to be asked.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void begin();
  void take(const GpuUsers& users);
  void note(const std::string& problem);

  const UntoldStarts& processes_;
  NvmlQuestion question_;
  bool asking_ = false;
  bool unanswered_ = false;  // NVML cannot be used, or left a question open: it is not asked again
  std::chrono::steady_clock::time_point next_;
  std::chrono::seconds pause_{1};
  std::map<std::pair<int, std::uint64_t>, UnseenProcess> found_;  // by pid and start
  std::vector<std::string> notes_;
};

// "has 900 MiB of GPU 0, as NVML says, and began no record".
std::string deed_of(const UnseenProcess& process);

}  // namespace culprit::report
