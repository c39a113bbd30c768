// The processes that NVML charges with memory, by device: the part of its answers that says who else uses a GPU, and
// how much is charged to one process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/doctor/gpu_facts.h"
#include "report/proc/proc_facts.h"

namespace culprit::report {

struct GpuUser {
  std::uint32_t pid = 0;
  std::string name;                    // empty: not known
  std::optional<std::uint64_t> bytes;  // empty: NVML gives no figure
};

// The users of a GPU, or of a MIG device.
struct DeviceUsers {
  std::string uuid;
  std::string problem;  // why `users` is not known; empty: it is
  // In a container NVML may name numbers of another PID namespace. They are taken for this one's if each of them is
  // that of a process here that uses a GPU; otherwise no number says which process is meant.
  bool foreign_numbers = false;
  std::vector<GpuUser> users;  // most bytes first
};

struct GpuUsers {
  std::string problem;      // why NVML has no answer at all; empty: it has
  bool unanswered = false;  // the problem: NVML hung, or crashed the process that asked
  std::vector<DeviceUsers> devices;

  // nullptr: NVML does not show the device.
  const DeviceUsers* of(const std::string& uuid) const;
};

GpuUsers users_of(const NvmlFacts& nvml, const ProcFacts& proc);

// NVML's figure for a process on a device.
struct Charge {
  std::optional<std::uint64_t> bytes;
  std::string problem;  // why there is none
};
Charge charge_of(const GpuUsers& users, const std::string& uuid, std::uint32_t pid);

// For a pipe between two culprit processes.
std::string packed(const GpuUsers& users);
// A text that packed() did not make: an answer with a `problem`.
GpuUsers unpacked(const std::string& text);

}  // namespace culprit::report
