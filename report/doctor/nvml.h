// Asks NVIDIA's management library about the machine's GPUs.
#pragma once

#include <string>

#include "report/doctor/gpu_facts.h"

namespace culprit::report {

// Queries the library at `library` ("libnvidia-ml.so.1": wherever the loader finds it). Never throws: failures become a
// `problem` or a line of `unseen`. Not thread-safe.
NvmlFacts read_nvml(const std::string& library);

}  // namespace culprit::report
