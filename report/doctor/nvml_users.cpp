#include "report/doctor/nvml_users.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "report/doctor/holders.h"

namespace culprit::report {
namespace {

GpuUser user_of(const GpuProcess& process, const ProcFacts& proc, const std::set<std::uint32_t>& numbers,
                const HolderFinder& finder) {
  GpuUser user;
  user.pid = process.pid;
  user.gpu_instance = process.gpu_instance;
  user.kind = finder.named(process).kind;
  const ProcessFacts* const found = process_of(proc, process.pid, numbers);
  if (found == nullptr) return user;
  user.name = found->name;
  if (user.kind == HolderKind::kReusedPid || user.kind == HolderKind::kHidden) return user;
  user.here = found->pid;
  user.own_number = found->own_number;
  user.start_ticks = found->start_ticks;
  user.account = found->user;
  user.unreadable = found->unreadable;
  return user;
}

// The numbers say nothing about processes here.
void forget_processes(std::vector<GpuUser>* users) {
  for (GpuUser& user : *users) {
    GpuUser only_number;
    only_number.pid = user.pid;
    only_number.bytes = user.bytes;
    only_number.kind = HolderKind::kHidden;
    only_number.computes = user.computes;
    only_number.gpu_instance = user.gpu_instance;
    user = std::move(only_number);
  }
}

bool is_of(const GpuProcess& process, const MigDevice& mig) {
  if (process.gpu_instance != mig.gpu_instance) return false;
  return mig.gpu_instance || process.compute_instance == mig.compute_instance;
}

// `mig`: only its processes; nullptr: all of the GPU.
DeviceUsers users_of(const GpuFacts& gpu, const MigDevice* mig, const ProcFacts& proc,
                     const std::set<std::uint32_t>& numbers, const HolderFinder& finder) {
  DeviceUsers device;
  device.uuid = mig == nullptr ? gpu.uuid : mig->uuid;
  device.title = "GPU " + std::to_string(gpu.index);
  const std::optional<GpuMemory>& memory = mig == nullptr ? gpu.memory : mig->memory;
  if (memory) device.in_use = memory->used();
  if (mig != nullptr) {
    device.title = "MIG " + std::to_string(mig->index) + " of " + device.title;
    device.gpu_instance = mig->gpu_instance;
    device.gpu = gpu.uuid;
  }
  std::map<std::uint32_t, GpuUser> users;
  for (const GpuProcess& process : gpu.processes) {
    if (mig != nullptr && !is_of(process, *mig)) continue;
    const auto known = users.find(process.pid);
    GpuUser& user = known != users.end()
                        ? known->second
                        : users.emplace(process.pid, user_of(process, proc, numbers, finder)).first->second;
    user.computes = user.computes || process.use != GpuUse::kGraphics;
    if (process.bytes) user.bytes = user.bytes.value_or(0) + *process.bytes;
  }
  if (users.empty() && !gpu.processes_known)
    device.problem = gpu.unseen.empty() ? "NVML does not list the processes of this GPU" : gpu.unseen.back();
  for (auto& [number, user] : users) {
    const ProcessFacts* const process = process_of(proc, number, numbers);
    device.foreign_numbers =
        device.foreign_numbers || (!proc.host_view && (process == nullptr || !process->uses_gpu()));
    device.users.push_back(std::move(user));
  }
  if (device.foreign_numbers) forget_processes(&device.users);
  std::stable_sort(device.users.begin(), device.users.end(), [](const GpuUser& left, const GpuUser& right) {
    return left.bytes.value_or(0) > right.bytes.value_or(0);
  });
  return device;
}

}  // namespace

GpuUsers users_of(const NvmlFacts& nvml, const ProcFacts& proc) {
  GpuUsers users;
  if (!nvml.available) users.problem = "NVML cannot be used: " + nvml.problem;
  const std::set<std::uint32_t> numbers = numbers_in(nvml);
  for (const GpuFacts& gpu : nvml.gpus) {
    const HolderFinder finder(nvml, proc, gpu);
    users.devices.push_back(users_of(gpu, nullptr, proc, numbers, finder));
    for (const MigDevice& mig : gpu.mig_devices) users.devices.push_back(users_of(gpu, &mig, proc, numbers, finder));
  }
  for (const auto& [pid, process] : proc.processes) {
    if (!process.dump.empty())
      users.recorders.push_back({pid, process.own_number, process.name, process.user, process.dump});
  }
  return users;
}

}  // namespace culprit::report
