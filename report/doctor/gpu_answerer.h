// Answers the questions of the processes of a run about GPUs (interpose/format/gpu_questions.h), in a copy of this
// process: NVML may hang in a driver that is stuck, or crash, while the command goes on.
#pragma once

#include <string>

#include "report/base/helper_process.h"

namespace culprit::report {

class GpuAnswerer {
 public:
  // Makes the file beside the one of CULPRIT_RUN_STARTS, `run_starts`. Without it, or without a copy, processes get no
  // answers. From a process with one thread. Never throws.
  explicit GpuAnswerer(const std::string& run_starts);
  // Ends the copy, without a wait for its end. No process that may ask is left.
  void end() const { helper_.end(); }

 private:
  HelperProcess helper_;
};

}  // namespace culprit::report
