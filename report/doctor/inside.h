// Reads the dumps of running processes under libculprit.so.
#pragma once

#include <cstdint>
#include <map>

#include "report/doctor/diagnosis.h"

namespace culprit::report {

// Reads the dumps of all processes that run under libculprit.so. Never throws.
std::map<std::uint32_t, InsideByGpu> look_inside(const ProcFacts& proc);

}  // namespace culprit::report
