// Draws conclusions from the facts; no other part of `culprit doctor` does.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "report/doctor/diagnosis.h"

namespace culprit::report {

// Combines the facts. Pure. `insides` by PID; `machine_name` is only passed on.
Diagnosis explain(const NvmlFacts& nvml, const ProcFacts& proc, const std::map<std::uint32_t, InsideByGpu>& insides,
                  const std::string& machine_name);

}  // namespace culprit::report
