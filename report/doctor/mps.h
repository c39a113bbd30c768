// CUDA's Multi-Process Service on this machine: its daemons, and its clients.
#pragma once

#include <string>

#include "report/doctor/diagnosis.h"

namespace culprit::report {

// The directory that this process's environment names, or the default one, if a control daemon has its pipe there.
std::string mps_pipes_here();

// Fills in `mps` and `mps_clients`. Pure. `pipes`: see mps_pipes_here().
void add_mps(const NvmlFacts& nvml, const ProcFacts& proc, const std::string& pipes, Diagnosis* diagnosis);

}  // namespace culprit::report
