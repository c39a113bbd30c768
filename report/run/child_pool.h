// Runs commands in the background, several at a time, each with a time limit: in a process group of its own, with no
// terminal and nothing on its standard input.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "report/run/child_process.h"
#include "report/run/preload.h"

namespace culprit {

struct PoolResult {
  ChildResult child;
  bool timed_out = false;  // its whole process group was killed
  double seconds = 0;
};

// One object at a time, in a process with one thread. While it exists SIGCHLD and the signals that end a process are
// blocked; those are seen by wait(), which then kills what runs.
class ChildPool {
 public:
  ChildPool();
  ~ChildPool();  // kills what still runs
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  // Starts a command. `show_output`: else what it writes is thrown away.
  void start(std::size_t number, const std::vector<std::string>& command, const Environment& environment,
             std::chrono::duration<double> limit, bool show_output);

  std::size_t running() const { return children_.size(); }

  // Waits until one of the commands has ended and returns its number, or until `patience` is over. False in that case,
  // and when this process was sent a signal that ends it: see signal_received().
  bool wait(std::chrono::duration<double> patience, std::size_t* number, PoolResult* result);
  int signal_received() const { return signal_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    std::size_t number;
    int pid;
    int start_errno;
    Clock::time_point started;
    Clock::time_point deadline;
    bool timed_out;
  };
  bool collect(std::size_t* number, PoolResult* result);

  std::vector<Child> children_;
  int signal_ = 0;
  struct Signals;
  Signals* signals_;
};

}  // namespace culprit
