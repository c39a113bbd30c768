// Stops the other threads of a process of a run that searches for lost memory at exit (interpose/format/exit_stops.h).
// A helper of the run does it: a tracer that was the program's parent would see its stops in waitpid().
#pragma once

#include <string>

#include "report/base/helper_process.h"

namespace culprit::report {

class ExitStopper {
 public:
  // Makes the file beside the one of CULPRIT_RUN_STARTS, `run_starts`. Without it, or without a helper, searches beside
  // other threads are not made. From a process with one thread. Never throws.
  explicit ExitStopper(const std::string& run_starts);
  // Ends the helper, without a wait for its end. No process that may ask is left.
  void end() const { helper_.end(); }

 private:
  HelperProcess helper_;
};

}  // namespace culprit::report
