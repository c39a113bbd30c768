// The processes that NVML charges with memory, by device: the part of its answers that says who else uses a GPU, and
// how much is charged to one process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/doctor/gpu_facts.h"
#include "report/proc/proc_facts.h"

namespace culprit::report {

enum class HolderKind {
  kProcess,    // runs, and has the GPU's files open
  kGhost,      // named by NVML but ended: other processes keep its memory
  kReusedPid,  // a ghost whose pid has been given to another process
  kZombie,     // ended, not yet waited for by its parent
  kStuck,      // in uninterruptible sleep: not even SIGKILL ends it now
  kHidden,     // only its pid is known: of another container or PID namespace, or hidden by /proc
  kFilesOnly,  // has the GPU's files open, NVML charges no memory to it
};
// "process", "ghost", ...: the names in the JSON output.
const char* holder_kind_name(HolderKind kind);

struct GpuUser {
  std::uint32_t pid = 0;               // NVML's number
  std::string name;                    // empty: not known
  std::optional<std::uint64_t> bytes;  // empty: NVML gives no figure
  HolderKind kind = HolderKind::kProcess;
  std::uint32_t here = 0;        // the number of the process here; 0: it cannot be seen, or has ended
  std::uint32_t own_number = 0;  // in its innermost PID namespace; 0: not known
  std::uint64_t start_ticks = 0;
  std::string account;     // the user who runs it; empty: not known
  std::string unreadable;  // why it cannot be looked at; empty: it can
  bool computes = false;   // NVML has it in a list of CUDA programs
  std::optional<unsigned> gpu_instance;
};

// The users of a GPU, or of a MIG device: those of its GPU instance, whose memory its compute instances share.
struct DeviceUsers {
  std::string uuid;
  std::string title;  // "GPU 0", "MIG 1 of GPU 0"
  std::optional<unsigned> gpu_instance;
  std::string gpu;                      // of a MIG device: the UUID of its GPU
  std::optional<std::uint64_t> in_use;  // by all processes together; empty: NVML does not tell it
  std::string problem;                  // why `users` is not known; empty: it is
  // In a container NVML may name numbers of another PID namespace. They are taken for this one's if each of them is
  // that of a process here that uses a GPU; otherwise no number says which process is meant.
  bool foreign_numbers = false;
  std::vector<GpuUser> users;  // most bytes first
};

// A process here that records: the dump that it has mapped can be seen.
struct Recorder {
  std::uint32_t pid = 0;
  std::uint32_t own_number = 0;
  std::string name;
  std::string account;
  std::string dump;  // as a path inside its own root
};

struct DeviceAnswer;

struct GpuUsers {
  std::string problem;      // why NVML has no answer at all; empty: it has
  bool unanswered = false;  // the problem: NVML hung, or crashed the process that asked
  std::vector<DeviceUsers> devices;
  std::vector<Recorder> recorders;

  // nullptr: NVML does not show the device.
  const DeviceUsers* of(const std::string& uuid) const;
};

// The process here that NVML means by `number`: the one with that number, or, where that uses no GPU, the only user of
// one that has the number in a PID namespace of its own. `numbers`: all that NVML names. nullptr: there is none.
const ProcessFacts* process_of(const ProcFacts& proc, std::uint32_t number, const std::set<std::uint32_t>& numbers);

// The numbers that NVML names, on any GPU.
std::set<std::uint32_t> numbers_in(const NvmlFacts& nvml);

// NVML's figure for a process on a device; `pid`: its number here.
struct Charge {
  std::optional<std::uint64_t> bytes;
  std::string problem;  // why there is none
};
Charge charge_of(const GpuUsers& users, const std::string& uuid, std::uint32_t pid);

// What NVML says of each device, by UUID, and of this process there.
std::map<std::string, DeviceAnswer> answers_for(const GpuUsers& users, std::uint32_t pid);

// For a pipe between two culprit processes.
std::string packed(const GpuUsers& users);
// A text that packed() did not make: an answer with a `problem`.
GpuUsers unpacked(const std::string& text);

}  // namespace culprit::report
