// CUDA's Multi-Process Service on this machine: its daemons, and its clients.
#pragma once

#include <string>

#include "report/doctor/diagnosis.h"

namespace culprit::report {

// `named`: the directory in CUDA_MPS_PIPE_DIRECTORY of this process; empty: the default one. Returns it if a control
// daemon has its pipe there; else nothing.
std::string mps_pipes_here(const std::string& named);

// Fills in `mps` and `mps_clients`. Pure. `pipes`: see mps_pipes_here().
void add_mps(const NvmlFacts& nvml, const ProcFacts& proc, const std::string& pipes, Diagnosis* diagnosis);

}  // namespace culprit::report
