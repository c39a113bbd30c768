// culprit start PID, culprit stop PID: switch recording of a running process on and off.
#pragma once

#include <cstdint>

namespace CLI {
class App;
}  // namespace CLI

namespace culprit::report {

struct SwitchCommand {
  std::uint32_t pid = 0;
};

void add_switch_command(CLI::App* app, SwitchCommand* command);

// Switches recording and waits until the process confirms it. Returns the exit code.
int run_switch_command(const SwitchCommand& command, bool on);

}  // namespace culprit::report
