// Draws conclusions from the facts; no other part of `culprit doctor` does.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "report/doctor/diagnosis.h"
#include "report/doctor/kernel_log.h"
#include "report/proc/driver_module.h"

namespace culprit::report {

// Facts of the machine beside NVML and its processes.
struct SystemFacts {
  std::string name;  // only passed on
  DriverModule driver;
  KernelLog log;
  std::string mps_pipes;  // a directory in which an MPS control daemon has its pipe; empty: none is seen
};

// Combines the facts. Pure. `insides` by PID.
Diagnosis explain(const NvmlFacts& nvml, const ProcFacts& proc, const std::map<std::uint32_t, InsideByGpu>& insides,
                  const SystemFacts& machine);

}  // namespace culprit::report
