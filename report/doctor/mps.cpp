#include "report/doctor/mps.h"

#include <unistd.h>

#include <algorithm>
#include <set>

namespace culprit::report {
namespace {

// Source of the names: https://docs.nvidia.com/deploy/mps/, "CUDA_MPS_PIPE_DIRECTORY".
constexpr char kDefaultPipes[] = "/tmp/nvidia-mps";
constexpr char kControl[] = "nvidia-cuda-mps-control";
constexpr char kServer[] = "nvidia-cuda-mps-server";

bool runs(const ProcessFacts& process, const std::string& program) {
  if (process.command.empty() || process.state == 'Z') return false;
  const std::string& first = process.command.front();
  return first.substr(first.rfind('/') + 1) == program;
}

}  // namespace

std::string mps_pipes_here(const std::string& named) {
  std::string pipes = named.empty() ? kDefaultPipes : named;
  return ::access((pipes + "/control").c_str(), F_OK) == 0 ? pipes : "";
}

void add_mps(const NvmlFacts& nvml, const ProcFacts& proc, const std::string& pipes, Diagnosis* diagnosis) {
  std::set<std::uint32_t> clients;
  for (const GpuFacts& gpu : nvml.gpus) {
    for (const GpuProcess& process : gpu.processes) {
      if (process.use == GpuUse::kMps) clients.insert(process.pid);
    }
  }
  std::vector<MpsDaemon>& daemons = diagnosis->mps;
  for (const auto& [pid, process] : proc.processes) {
    if (!runs(process, kControl)) continue;
    MpsDaemon daemon;
    daemon.pid = pid;
    daemon.user = process.user;
    daemon.pipes_by_default = process.mps_pipes.empty();
    daemon.pipes = daemon.pipes_by_default ? kDefaultPipes : process.mps_pipes;
    daemons.push_back(std::move(daemon));
  }
  const auto at = [&](const std::string& directory) {
    return std::any_of(daemons.begin(), daemons.end(),
                       [&](const MpsDaemon& daemon) { return daemon.pipes == directory; });
  };
  if (!pipes.empty() && !at(pipes)) {
    MpsDaemon daemon;
    daemon.pipes = pipes;
    daemons.push_back(std::move(daemon));
  }
  for (const auto& [pid, process] : proc.processes) {
    if (!runs(process, kServer)) continue;
    clients.erase(pid);
    const auto parent = std::find_if(daemons.begin(), daemons.end(), [&, &server = process](const MpsDaemon& daemon) {
      return daemon.pid == server.parent;
    });
    if (parent != daemons.end()) {
      parent->servers.push_back(pid);
    } else if (!daemons.empty()) {
      daemons.back().servers.push_back(pid);
    } else {
      MpsDaemon unknown;
      unknown.servers.push_back(pid);
      daemons.push_back(std::move(unknown));
    }
  }
  diagnosis->mps_clients.assign(clients.begin(), clients.end());
}

}  // namespace culprit::report
