// Reads the dumps of running processes under libculprit.so.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/doctor/gpu_users.h"
#include "report/model/balance.h"
#include "report/proc/proc_facts.h"
#include "report/symbols/shared_symbols.h"

namespace culprit::report {

struct Report;

// A process's memory on one GPU according to its dump.
struct Inside {
  struct Stack {
    std::string id;  // the group's fingerprint in `culprit report`
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    std::string api;
    std::string place;  // "solver.cu:31  Solver::step"
    std::string cause;  // "exception"; empty: live, without evidence of a leak
  };
  std::string gpu;                 // UUID
  std::string dump;                // path, as the process sees it
  std::string problem;             // why it could not be read; empty: it was read
  std::uint64_t live_bytes = 0;    // recorded and not freed, without lost_bytes and cached_bytes
  std::uint64_t lost_bytes = 0;    // its owner left by an exception or error, a free was refused, ...
  std::uint64_t cached_bytes = 0;  // segments of caching allocators
  std::uint64_t pool_bytes = 0;    // kept for re-use by the default memory pool
  std::vector<Stack> stacks;       // the largest few
  std::optional<Balance> balance;  // of now
  Charge charge;                   // NVML's figure for the process
  // Sentences about memory that another process maps, or of another process that this one maps.
  std::vector<std::string> shared;
  std::uint64_t known() const { return live_bytes + lost_bytes + cached_bytes + pool_bytes; }
};

// The memory of a process, by UUID of the GPU; the key "" stands for a dump that could not be read.
using InsideByGpu = std::map<std::string, Inside>;

// The memory of a process by its report; `dump`: its path, as the process sees it.
InsideByGpu inside_of(const Report& report, const std::string& dump, const GpuUsers& users);

// Reads dumps of running processes again and again; only new addresses are looked up.
class RepeatedLook {
 public:
  // Never throws.
  InsideByGpu look(const std::string& proc, const Recorder& recorder, const GpuUsers& users);

 private:
  std::map<std::uint32_t, std::unique_ptr<SharedSymbols>> symbols_;  // by pid: each has a root directory of its own
};

// Reads the dumps of all processes that run under libculprit.so. Never throws.
// `users`: NVML's figures.
std::map<std::uint32_t, InsideByGpu> look_inside(const ProcFacts& proc, const GpuUsers& users);

}  // namespace culprit::report
