// The last way to learn of a process of `culprit run` that recorded nothing: a look at all processes that live.
//
// A process that cannot make its dump stores that in the file of the run, or sends a message
// (interpose/format/run_starts.h). In a network namespace of its own, under a filter of system calls, or without a free
// descriptor it can do neither. Then it leaves its error in a variable of libculprit.so, which is read here as long as
// it lives. The processes of the run are those that were started with its environment: a daemon has another parent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace culprit::report {

struct UntoldStart {
  int pid = 0;
  std::string program;
  // An errno; format::kUntoldRecording; 0: it has called nothing so far, and runs on after the command.
  int error = 0;
};

class UntoldStarts {
 public:
  // `mark`: NAME=value, which only the processes of this run have in their environment.
  explicit UntoldStarts(std::string mark) : mark_(std::move(mark)) {}

  // Looks, unless the last look is too near.
  void look();
  // Looks once more, when the command has ended. Returns what was found, in the order of the pids.
  std::vector<UntoldStart> finish();

 private:
  // Returns whether a process may make its first call later.
  bool look_at_all(bool at_end);

  const std::string mark_;
  std::chrono::steady_clock::time_point next_;
  std::map<std::pair<int, std::uint64_t>, UntoldStart> found_;  // by pid and start
};

}  // namespace culprit::report
