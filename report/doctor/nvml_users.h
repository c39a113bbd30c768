// The users of each GPU, from what NVML and /proc say.
#pragma once

#include "report/doctor/gpu_facts.h"
#include "report/doctor/gpu_users.h"
#include "report/proc/proc_facts.h"

namespace culprit::report {

GpuUsers users_of(const NvmlFacts& nvml, const ProcFacts& proc);

}  // namespace culprit::report
