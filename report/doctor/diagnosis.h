// The holders of each GPU's memory: the findings of `culprit doctor`, ready to be written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/doctor/device_table.h"
#include "report/doctor/gpu_facts.h"
#include "report/doctor/gpu_users.h"
#include "report/doctor/inside.h"
#include "report/doctor/kernel_log.h"
#include "report/doctor/known_issues.h"
#include "report/proc/proc_facts.h"

namespace culprit::report {

struct Holder {
  HolderKind kind = HolderKind::kProcess;
  std::uint32_t pid = 0;
  std::optional<GpuUse> use;  // empty: not named by NVML
  std::optional<std::uint64_t> bytes;
  std::optional<unsigned> gpu_instance;
  std::optional<unsigned> compute_instance;
  std::optional<ProcessFacts> process;  // with that pid; empty: not found
  std::string role;                     // "persistence daemon", "MPS server", ...; empty: an ordinary program
  bool only_watches = false;            // a daemon or monitor that allocates nothing
  std::vector<ProcessFacts> keepers;    // other processes with the GPU's files open, which keep the memory
  bool certain = true;                  // false: the keepers are likely, not proven
  std::optional<Inside> inside;
  std::string explanation;        // a sentence or two; may be empty
  std::vector<std::string> next;  // commands to type
};

// The processes that must end before this GPU is reset, or that a reset by another way would hit.
struct Reset {
  std::vector<std::uint32_t> pids;
  bool complete = true;  // false: there may be more, which cannot be seen from here
};

// A control daemon of CUDA's Multi-Process Service (MPS).
struct MpsDaemon {
  std::optional<std::uint32_t> pid;    // empty: only its directory is seen
  std::string user;                    // empty: not known
  std::string pipes;                   // the directory by which clients find it
  bool pipes_by_default = false;       // its environment names none, or cannot be read
  std::vector<std::uint32_t> servers;  // its children
};

struct GpuDiagnosis {
  GpuFacts gpu;
  std::vector<DeviceTable> tables;           // of the GPU, then of its MIG devices
  std::vector<Holder> holders;               // largest first
  std::uint64_t named = 0;                   // the sum of the bytes that NVML charges to holders
  std::optional<std::uint64_t> unexplained;  // used bytes of no holder; empty: NVML does not report the used bytes
  bool idle = false;                         // nothing holds memory here
  std::vector<std::string> findings;         // other possible reasons of a failure
  std::vector<std::string> next;
  std::vector<Xid> xids;  // the last one first
  Reset reset;
  std::vector<std::string> answers;  // where the documentation answers the questions that this GPU raises
};

struct Diagnosis {
  std::string host;
  std::string driver;
  std::optional<bool> open_modules;      // NVIDIA's open kernel modules
  std::string cuda;                      // the newest version that the driver supports; empty: not known
  std::vector<KnownIssue> known_issues;  // of the driver
  bool nvml = false;
  bool host_view = false;
  std::vector<GpuDiagnosis> gpus;
  std::vector<Holder> holders;  // without NVML: processes with files of any GPU open
  std::vector<Xid> xids;        // of a GPU that is not in `gpus`
  double uptime_seconds = 0;    // of the machine
  std::vector<MpsDaemon> mps;
  std::vector<std::uint32_t> mps_clients;  // that NVML names, on any GPU
  std::vector<std::string> unseen;         // facts that could not be examined, and the remedy
};

// Whether a finding, an explanation or an Xid error names a reset as a way out.
bool advises_reset(const GpuDiagnosis& diagnosis);

// The processes of a MIG device in NVML's list, and what it charges to them.
struct MigUse {
  std::uint64_t processes = 0;
  std::uint64_t bytes = 0;
};
MigUse use_of(const GpuFacts& gpu, const MigDevice& mig);

// "compute", "graphics", "mps".
const char* gpu_use_name(GpuUse use);
// "default", "exclusive-process", ...; "unknown".
const char* compute_mode_name(ComputeMode mode);
// "767 (forkhold)".
std::string process_text(const ProcessFacts& process);

}  // namespace culprit::report
