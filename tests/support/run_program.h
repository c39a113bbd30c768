// Starts a program, feeds and drains its pipes, and always returns: the bottom layer of the process tests.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace culprit::test {

struct ProgramOptions {
  std::map<std::string, std::string> environment;  // added to this process's; an empty value removes the variable
  std::string working_directory;                   // empty: this process's
  int timeout_seconds = 60;
  // Called once the program has printed a line "ready"; its standard input stays open until this returns. Without it
  // standard input is empty from the start.
  std::function<void(pid_t)> when_ready;
  // Runs in the child between fork and exec, so only async-signal-safe calls (setrlimit, open, dup2) are allowed there.
  std::function<void()> before_exec;
};

struct Finished {
  pid_t pid = -1;
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  // It ran past the limit and was killed with its whole process group. `err` ends with the places of its threads.
  bool timed_out = false;
  std::string out;
  std::string err;
};

// Runs argv (argv[0] is a path) to its end and returns its exit status and output. Never waits longer than the time
// limit. Throws std::runtime_error when fork fails. It forks, so do not use it from several threads at once.
Finished run_program(const std::vector<std::string>& argv, const ProgramOptions& options);

}  // namespace culprit::test
