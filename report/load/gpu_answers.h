// NVML's answers about the devices on which allocations of a process failed: the file next to the dump that
// `culprit run` writes (schema culprit.gpu/1).
#pragma once

#include <string>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/model/gpu_charges.h"

namespace culprit::report {

struct GpuAnswer {
  unsigned device = 0;  // as the process counts
  GpuCharges charges;
};

// The path of a dump's answers: "x.dump.gpu.json".
std::string gpu_answers_path(const std::string& dump_path);

// Throws FileError. `header`: the dump's.
void write_gpu_answers(const std::string& dump_path, const format::Header& header,
                       const std::vector<GpuAnswer>& answers);

// The answers next to a dump, in the order of their times; none if the file is of another dump. When the file is there
// and cannot be read, `problem` says why.
std::vector<GpuAnswer> read_gpu_answers(const Dump& dump, std::string* problem);

}  // namespace culprit::report
