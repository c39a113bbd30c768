// Asks NVML in a copy of this process: it may hang in a driver that is stuck, or crash, while the commands that ask go
// on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "report/base/forked_child.h"
#include "report/doctor/gpu_users.h"

namespace culprit::report {

// After this time there is an answer, if only a `problem`. The driver may first have to start the machine's other GPUs.
constexpr std::chrono::seconds kLongestQuestion{5};
constexpr std::chrono::seconds kLongestOfDoctor{30};

// One question at a time. From a process with one thread.
class NvmlQuestion {
 public:
  // The library is that of CULPRIT_NVML, the processes are those of CULPRIT_PROC, where these variables are set.
  explicit NvmlQuestion(std::chrono::milliseconds longest = kLongestQuestion);
  // Ends the copies that did not answer.
  ~NvmlQuestion();
  NvmlQuestion(const NvmlQuestion&) = delete;
  NvmlQuestion& operator=(const NvmlQuestion&) = delete;

  void begin();
  bool is_open() const { return child_.message.is_open(); }
  // Waits for the answer, for at most `wait`. Empty: there is none yet. A question without an answer in the longest
  // time is answered with a `problem`.
  std::optional<GpuUsers> answer(std::chrono::milliseconds wait);

  // Whether a copy that did not answer still runs although it was killed: it hangs in the kernel.
  bool has_stuck_copy();

 private:
  GpuUsers close(const std::string& problem);
  void collect();

  const std::chrono::milliseconds longest_;
  const std::string library_;
  const std::string proc_;
  ForkedChild child_;
  std::chrono::steady_clock::time_point began_;
  std::string text_;
  std::vector<pid_t> ended_;  // that are not collected yet
};

// Asks, and waits for the answer.
GpuUsers ask_for_users(NvmlQuestion* question);

}  // namespace culprit::report
