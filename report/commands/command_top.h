// culprit top PID|DUMP: who holds how much now, largest first, again and again while the process runs.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace culprit {

struct TopCommand {
  std::string target;  // a process's number or a dump's path
  double interval = 2;
  unsigned times = 0;  // 0: until the process ends, on a terminal; else once
  unsigned rows = 20;
  std::string group_by = "stack";
};

// Declares the command's options on `app`.
void add_top_command(CLI::App* app, TopCommand* command);

// Returns the exit code: kExitUnreadable when there is no such process or dump.
int run_top_command(const TopCommand& command);

}  // namespace culprit
