// Who holds each GPU's memory: what `culprit doctor` found out, ready to be written out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/doctor/gpu_facts.h"
#include "report/proc/proc_facts.h"

namespace culprit {

// What libculprit.so knows of a process's memory on one GPU.
struct Inside {
  struct Stack {
    std::string id;  // the group's fingerprint in `culprit report`
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    std::string api;
    std::string place;  // "solver.cu:31  Solver::step"
    std::string cause;  // "exception"; empty: live, nothing speaks against it
  };
  std::string dump;                // path, as the process sees it
  std::string problem;             // why it could not be read; empty: it could
  std::uint64_t live_bytes = 0;    // recorded and not freed, without the two below
  std::uint64_t lost_bytes = 0;    // its owner left by an exception or error, its free was refused, ...
  std::uint64_t cached_bytes = 0;  // segments of caching allocators
  std::uint64_t pool_bytes = 0;    // what the default memory pool keeps for re-use
  std::vector<Stack> stacks;       // largest first, a few
  std::uint64_t known() const { return live_bytes + lost_bytes + cached_bytes + pool_bytes; }
};

// What is inside a process, by UUID of the GPU; under "" a dump that could not be read.
using InsideByGpu = std::map<std::string, Inside>;

enum class HolderKind {
  kProcess,    // runs, and has the GPU's files open
  kGhost,      // named by NVML, and gone: others keep its memory
  kReusedPid,  // the same, and its number has been given to another process
  kZombie,     // ended, not collected by its parent
  kStuck,      // in uninterruptible sleep: not even SIGKILL ends it now
  kHidden,     // known by its number only: of another container or PID namespace, or hidden by /proc
  kFilesOnly,  // has the GPU's files open, NVML charges nothing to it
};

struct Holder {
  HolderKind kind = HolderKind::kProcess;
  std::uint32_t pid = 0;
  std::optional<GpuUse> use;  // empty: not named by NVML
  std::optional<std::uint64_t> bytes;
  std::optional<unsigned> gpu_instance;
  std::optional<unsigned> compute_instance;
  std::optional<ProcessFacts> process;  // of that number; empty: none to be seen
  std::string role;                     // "persistence daemon", "MPS server", ...; empty: a program
  bool only_watches = false;            // a daemon or monitor that allocates nothing
  std::vector<ProcessFacts> keepers;    // who has the GPU's files open in its place
  bool certain = true;                  // false: the keepers are likely, not proven
  std::optional<Inside> inside;
  std::string explanation;        // a sentence or two; may be empty
  std::vector<std::string> next;  // commands to type
};

struct GpuDiagnosis {
  GpuFacts gpu;
  std::vector<Holder> holders;               // largest first
  std::uint64_t named = 0;                   // the sum of what NVML charges to holders
  std::optional<std::uint64_t> unexplained;  // of the used bytes; empty: NVML does not tell what is used
  std::vector<std::string> findings;         // what else explains a failure
  std::vector<std::string> next;
};

struct Diagnosis {
  std::string host;
  std::string driver;
  bool nvml = false;
  bool host_view = false;
  std::vector<GpuDiagnosis> gpus;
  std::vector<Holder> holders;      // without NVML: who has any GPU's files open
  std::vector<std::string> unseen;  // what could not be seen, and what would help
};

// Puts the facts together. Pure. `insides` by PID; `machine_name` is only passed on.
Diagnosis explain(const NvmlFacts& nvml, const ProcFacts& proc, const std::map<std::uint32_t, InsideByGpu>& insides,
                  const std::string& machine_name);

// "process", "ghost", ...: the names in the JSON output.
const char* holder_kind_name(HolderKind kind);
// "compute", "graphics", "mps".
const char* gpu_use_name(GpuUse use);
// "default", "exclusive-process", ...; "unknown".
const char* compute_mode_name(ComputeMode mode);
// "767 (forkhold)".
std::string process_text(const ProcessFacts& process);

// Reads the dumps of those processes that run under libculprit.so. Never throws.
std::map<std::uint32_t, InsideByGpu> look_inside(const ProcFacts& proc);

}  // namespace culprit
