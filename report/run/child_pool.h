// Runs several commands at a time in the background, each with a time limit and in a process group of its own, without
// a terminal and with an empty standard input.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "report/run/child_process.h"
#include "report/run/preload.h"

namespace culprit::report {

struct PoolResult {
  ChildResult child;
  bool timed_out = false;  // its whole process group was killed
  double seconds = 0;
};

// Create one object at a time, in a process with one thread. As long as it exists, SIGCHLD and the signals that end a
// process are blocked. wait() receives the latter and then kills the running commands.
class ChildPool {
 public:
  ChildPool();
  ~ChildPool();  // kills the commands that still run
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  // Starts a command. Without `show_output` its output is discarded.
  void start(std::size_t number, const std::vector<std::string>& command, const Environment& environment,
             std::chrono::duration<double> limit, bool show_output);

  std::size_t running() const { return children_.size(); }

  // Waits until a command has ended and returns its number, or until `patience` is over. Returns false after
  // `patience`, and when this process received a signal that ends it: see signal_received().
  bool wait(std::chrono::duration<double> patience, std::size_t* number, PoolResult* result);
  int signal_received() const { return signal_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    std::size_t number;
    ForkedChild process;
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

}  // namespace culprit::report
