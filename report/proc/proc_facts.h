// What /proc says about the processes that have a GPU's files open: plain facts, nothing judged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/proc/container.h"

namespace culprit {

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
  bool other_gpu_files = false;  // /dev/nvidiactl, /dev/nvidia-uvm, ...: needed by every CUDA program, of no one GPU
  bool maps_driver = false;      // has libcuda.so loaded: a CUDA program, wherever its GPU's files are (WSL: /dev/dxg)
  bool holds_files() const { return !gpus.empty() || other_gpu_files; }
  std::string unreadable;                   // why its descriptors or mappings could not be read; empty: they could
  std::vector<std::uint32_t> live_threads;  // of a zombie: threads that outlived the main one

  // Read only for those that matter: see read_proc.
  std::vector<std::string> command;
  std::string user;
  std::optional<double> age_seconds;
  std::string parent_name;
  std::string wait_channel;  // of a process in state D: the function in the kernel
  Container container;
  std::string dump;  // the file that libculprit.so writes in it, a path inside its own root; empty: none
};

struct ProcFacts {
  std::string root;           // "/proc"
  std::string problem;        // why it cannot be read at all; empty: it can
  bool host_view = false;     // the machine's first PID namespace: what is not there does not exist
  bool hides_others = false;  // mounted with hidepid
  std::map<std::uint32_t, ProcessFacts> processes;
  bool privileged = false;        // culprit runs as root: asking again with sudo shows no more
  unsigned unreadable = 0;        // processes whose files could not be looked at
  std::string unreadable_reason;  // of the first of these: "Permission denied"
  // Some process could not be seen, or its files not.
  bool incomplete() const { return unreadable != 0 || hides_others || !problem.empty(); }
  const ProcessFacts* find(std::uint32_t pid) const {
    const auto found = processes.find(pid);
    return found == processes.end() ? nullptr : &found->second;
  }
};

// Reads the tree at `root`. Details are read of processes that hold a GPU's files and of those in `named`. Leaves this
// process itself out. Never throws: what cannot be read is counted. Not thread-safe (getpwuid).
ProcFacts read_proc(const std::string& root, const std::set<std::uint32_t>& named);

// The file that libculprit.so writes in a process, a path inside its own root; empty: none, or it cannot be seen.
std::string dump_of_process(const std::string& root, std::uint32_t pid);

// Opens `path` as the process `pid` sees it (its own root, links in it included), for reading, without waiting and only
// when it is a regular file. -1 with errno when that is not possible.
int open_in_process(const std::string& root, std::uint32_t pid, const std::string& path);

}  // namespace culprit
