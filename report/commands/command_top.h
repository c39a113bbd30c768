// culprit top PID|DUMP: the current holders of memory, largest first, refreshed while the process runs.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace culprit::report {

struct TopCommand {
  std::string target;  // a pid or a dump's path
  double interval = 2;
  unsigned times = 0;  // 0: on a terminal until the process ends, elsewhere once
  unsigned rows = 20;
  std::string group_by = "stack";
};

void add_top_command(CLI::App* app, TopCommand* command);

// Returns the exit code: kExitUnreadable when there is no such process or dump.
int run_top_command(const TopCommand& command);

}  // namespace culprit::report
