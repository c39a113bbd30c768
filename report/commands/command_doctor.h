// culprit doctor: lists the processes that hold GPU memory now, and how to get it back.
#pragma once

#include <optional>
#include <string>

#include "report/commands/output_options.h"

namespace culprit::report {

struct DoctorCommand {
  std::optional<unsigned> gpu;  // empty: all
  OutputOptions output;         // format and file only
};

void add_doctor_command(CLI::App* app, DoctorCommand* command);

// Returns kExitFine; kExitUsage when there is no such GPU; kExitUnreadable when NVML cannot be used (the facts from
// /proc are written all the same) or the output cannot be written.
int run_doctor_command(const DoctorCommand& command);

}  // namespace culprit::report
