// Why `culprit run` would record nothing of a program, or of a part of it: what its file and the commands that start it
// say, without starting anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

struct Obstacle {
  std::string fact;    // "./app is a static program: ..."
  std::string advice;  // a command or a change; empty: there is none
};

// The user who would start the program.
struct Starter {
  std::uint32_t user = 0;
  std::uint32_t group = 0;
};

struct Examination {
  // The files that would be started one after the other, as far as this can be seen: "env", "/opt/app/start.sh", ...
  std::vector<std::string> files;
  std::vector<Obstacle> obstacles;
  int start_errno = 0;  // the first file cannot be started
};

// `command`: as for `culprit run`. Follows scripts to their interpreters, and commands such as `env`, `nice` and
// `mpirun` to the programs that they start. Programs that it starts by itself stay unseen.
Examination examine_program(const std::vector<std::string>& command, const Starter& starter);

// Why the loader would not take the library itself, at `path`; empty: it would.
std::vector<Obstacle> examine_library(const std::string& path);

}  // namespace culprit::report
