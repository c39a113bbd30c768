// Failed allocations in sentences: those of the findings, and of the richer part of the text report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/findings/finding.h"

namespace culprit::report {

struct GpuCharges;
struct IdleMemory;
struct Breakdown;

// "GPU 0", or "the GPU".
std::string gpu_of(const Breakdown& breakdown);

// "train.py:4  step", or that nothing is recorded.
std::string place_of_stack(const ResolvedStack& stack);

// "rank 3: cuMemAlloc asked for 2.00 GiB at train.py:4  step, at 3.2 s; 79.0 GiB of 80.0 GiB of GPU 0 in use, 1.00 GiB
// free, 70.0 GiB by this process".
std::string failure_text(const Report& report, const Breakdown& breakdown);

// "3.00 GiB in the PyTorch caching allocator: 2.00 GiB in holes ..., the largest of 12.0 MiB".
std::string idle_text(const IdleMemory& idle);

// "NVML, 0.2 s after the failure: 12.0 GiB by 4242 (python3); 30.0 GiB by this process": at most `most` processes.
std::string charges_text(const Breakdown& breakdown, const GpuCharges& charges, std::size_t most);

// The failed calls that allocate, or those that do not, as findings.
void collect_failed(const Report& report, bool allocates, FindingKind kind, std::vector<Finding>* list);

}  // namespace culprit::report
