// Waits for stops of traced threads.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline after(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// Waits for stops of traced threads, with a time limit and without losing SIGINT, SIGTERM and SIGHUP. These signals and
// SIGCHLD are blocked as long as the object lives.
class StopWaiter {
 public:
  // For threads of this process, which must live as long.
  explicit StopWaiter(const TracedProcess& process);
  ~StopWaiter();
  StopWaiter(const StopWaiter&) = delete;
  StopWaiter& operator=(const StopWaiter&) = delete;

  enum class Event { kStopped, kGone, kTimeout };
  Event wait(pid_t thread, Deadline deadline, int* status);

  // A thread that was asked to stop, and does so later: it is let go as soon as it has, during any wait.
  void let_go_later(pid_t thread) { awaited_.push_back(thread); }
  bool is_awaited(pid_t thread) const { return std::find(awaited_.begin(), awaited_.end(), thread) != awaited_.end(); }

  // Waits for `time`, or until a signal requests the end.
  void pause(std::chrono::milliseconds time);

  // The signal that requested the end, 0 = none.
  int interrupted() const { return interrupted_; }
  // Returns that signal and clears it.
  int take_interrupted() { return std::exchange(interrupted_, 0); }

 private:
  void take_signal(std::chrono::nanoseconds limit);
  void let_go_awaited();

  const TracedProcess& process_;
  sigset_t watched_;
  sigset_t before_;
  int interrupted_ = 0;
  std::vector<pid_t> awaited_;
};

// A stop made some system calls return EINTR. Those that the kernel does not repeat by itself are repeated now, because
// from here on the thread may be abandoned at any time.
void repeat_call(const TracedProcess& process, pid_t thread);

}  // namespace culprit::report
