// The processes with a GPU's files open, according to /proc: facts without judgement.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/proc/container.h"

namespace culprit::report {

// A thread in uninterruptible sleep.
struct StuckThread {
  std::uint32_t tid = 0;
  std::string wait_channel;               // the function in the kernel; empty: not readable
  std::vector<std::string> kernel_stack;  // "os_acquire_rwlock_read+0x35/0x50 [nvidia]", innermost first; only for root
  // Whether the stack passes through NVIDIA's kernel modules.
  bool in_driver() const;
};

struct ProcessFacts {
  std::uint32_t pid = 0;
  std::uint32_t parent = 0;
  std::uint32_t group = 0;
  std::uint32_t session = 0;
  char state = '?';  // R, S, D, Z, ...
  std::string name;  // 15 bytes at most
  std::uint64_t start_ticks = 0;

  // The GPU's files, as open descriptors or as mappings.
  std::set<unsigned> gpus;       // N of /dev/nvidiaN
  bool other_gpu_files = false;  // /dev/nvidiactl, /dev/nvidia-uvm, ...: opened by every CUDA program
  bool maps_driver = false;      // has libcuda.so loaded: a CUDA program (on WSL with /dev/dxg for its GPU)
  bool holds_files() const { return !gpus.empty() || other_gpu_files; }
  bool uses_gpu() const { return holds_files() || maps_driver; }
  std::string unreadable;                   // why its descriptors or mappings could not be read; empty: they were read
  std::vector<std::uint32_t> live_threads;  // of a zombie: threads that outlived the main one

  // Read only for GPU users and named processes: see read_proc.
  std::uint32_t own_number = 0;  // in its innermost PID namespace: the number that it knows
  std::vector<std::string> command;
  std::string user;
  std::optional<double> age_seconds;
  std::string parent_name;
  std::string wait_channel;  // of a process in state D: the function in the kernel
  std::vector<StuckThread> stuck_threads;
  std::string mps_pipes;  // its CUDA_MPS_PIPE_DIRECTORY; empty: not set, or not readable
  Container container;
  std::string dump;  // the dump that libculprit.so writes in it, as a path inside its own root; empty: none
};

struct ProcFacts {
  std::string root;           // "/proc"
  std::string problem;        // why /proc cannot be read at all; empty: it can
  bool host_view = false;     // /proc is of the machine's first PID namespace and so contains every process
  bool hides_others = false;  // mounted with hidepid
  std::map<std::uint32_t, ProcessFacts> processes;
  double uptime_seconds = 0;      // of the machine
  bool privileged = false;        // culprit runs as root: sudo would not show more
  unsigned unreadable = 0;        // processes whose files could not be examined
  std::string unreadable_reason;  // of the first unreadable process: "Permission denied"
  // Whether some process, or the files of one, could not be examined.
  bool incomplete() const { return unreadable != 0 || hides_others || !problem.empty(); }
  const ProcessFacts* find(std::uint32_t pid) const {
    const auto found = processes.find(pid);
    return found == processes.end() ? nullptr : &found->second;
  }
};

// Reads the tree at `root`. Details are read for processes that hold a GPU's files or have the driver loaded, for those
// in `named`, and for the daemons of CUDA's Multi-Process Service. This process itself is left out. Never throws:
// unreadable processes are counted. Not thread-safe (getpwuid).
ProcFacts read_proc(const std::string& root, const std::set<std::uint32_t>& named);

// The dump that libculprit.so writes in a process, as a path inside its own root; empty: none, or not visible.
std::string dump_of_process(const std::string& root, std::uint32_t pid);

// Opens `path` inside the process `pid` (its own root, links in it included) for reading, without blocking and only if
// it is a regular file. -1 with errno on failure.
int open_in_process(const std::string& root, std::uint32_t pid, const std::string& path);

}  // namespace culprit::report
