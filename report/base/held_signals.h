// SIGINT, SIGTERM and SIGHUP wait while something must be brought to its end first.
#pragma once

#include <signal.h>

#include <chrono>

namespace culprit::report {

// For the calling thread, which is the only one. Such a signal that came acts when the object ends.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Waits for `time`, or until one comes. Returns whether one has come since the begin.
  bool wait(std::chrono::nanoseconds time);
  bool came() const { return taken_ != 0; }

 private:
  sigset_t held_;
  sigset_t before_;
  int taken_ = 0;
};

}  // namespace culprit::report
