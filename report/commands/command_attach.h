// culprit attach PID, culprit detach PID: start and end recording in a running process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "report/commands/output_options.h"

namespace culprit::report {

struct AttachCommand {
  pid_t pid = 0;
  std::string out;       // empty: the working directory
  double seconds = 0;    // --for; 0: until culprit detach
  double time_out = 10;  // for attaching, and for detaching
  std::string backend = "redirect";
  std::optional<unsigned> depth;
  OutputOptions output;
};

struct DetachCommand {
  pid_t pid = 0;
  double time_out = 10;
};

void add_attach_command(CLI::App* app, AttachCommand* command);
void add_detach_command(CLI::App* app, DetachCommand* command);

// Return an exit code: kExitUnreadable, with a message on stderr, on failure.
int run_attach_command(const AttachCommand& command);
int run_detach_command(const DetachCommand& command);

}  // namespace culprit::report
