// Reads the dumps of running processes under libculprit.so.
#pragma once

#include <cstdint>
#include <map>

#include "report/doctor/diagnosis.h"

namespace culprit::report {

// Reads the dumps of all processes that run under libculprit.so. Never throws.
// `users`: NVML's figures.
std::map<std::uint32_t, InsideByGpu> look_inside(const ProcFacts& proc, const GpuUsers& users);

}  // namespace culprit::report
