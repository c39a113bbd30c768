// culprit doctor: says who holds the GPUs' memory now, and what to do about it.
#pragma once

#include <optional>
#include <string>

#include "report/commands/report_options.h"

namespace culprit {

struct DoctorCommand {
  std::optional<unsigned> gpu;  // empty: all
  OutputOptions output;         // format and file only
};

// Declares the command's options on `app`.
void add_doctor_command(CLI::App* app, DoctorCommand* command);

// Returns kExitFine; kExitUsage when there is no such GPU; kExitUnreadable when NVML cannot be used (what /proc tells
// is written all the same) or the output cannot be written.
int run_doctor_command(const DoctorCommand& command);

}  // namespace culprit
