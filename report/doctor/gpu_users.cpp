#include "report/doctor/gpu_users.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "report/base/json_input.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

bool uses_gpu(const ProcFacts& proc, std::uint32_t pid) {
  const ProcessFacts* process = proc.find(pid);
  return process != nullptr && (process->holds_files() || process->maps_driver);
}

// `mig`: only its processes; nullptr: all of the GPU.
DeviceUsers users_of(const GpuFacts& gpu, const MigDevice* mig, const ProcFacts& proc) {
  DeviceUsers device;
  device.uuid = mig == nullptr ? gpu.uuid : mig->uuid;
  std::map<std::uint32_t, GpuUser> users;
  for (const GpuProcess& process : gpu.processes) {
    if (mig != nullptr &&
        (process.gpu_instance != mig->gpu_instance || process.compute_instance != mig->compute_instance))
      continue;
    GpuUser& user = users[process.pid];
    user.pid = process.pid;
    if (process.bytes) user.bytes = user.bytes.value_or(0) + *process.bytes;
  }
  if (users.empty() && !gpu.processes_known)
    device.problem = gpu.unseen.empty() ? "NVML does not list the processes of this GPU" : gpu.unseen.back();
  device.foreign_numbers = !proc.host_view && std::any_of(users.begin(), users.end(), [&](const auto& user) {
    return !uses_gpu(proc, user.first);
  });
  for (auto& [pid, user] : users) {
    const ProcessFacts* process = proc.find(pid);
    if (!device.foreign_numbers && process != nullptr) user.name = process->name;
    device.users.push_back(std::move(user));
  }
  std::stable_sort(device.users.begin(), device.users.end(), [](const GpuUser& left, const GpuUser& right) {
    return left.bytes.value_or(0) > right.bytes.value_or(0);
  });
  return device;
}

}  // namespace

const DeviceUsers* GpuUsers::of(const std::string& uuid) const {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const DeviceUsers& device) { return device.uuid == uuid; });
  return found == devices.end() ? nullptr : &*found;
}

GpuUsers users_of(const NvmlFacts& nvml, const ProcFacts& proc) {
  GpuUsers users;
  if (!nvml.available) users.problem = "NVML cannot be used: " + nvml.problem;
  for (const GpuFacts& gpu : nvml.gpus) {
    users.devices.push_back(users_of(gpu, nullptr, proc));
    for (const MigDevice& mig : gpu.mig_devices) users.devices.push_back(users_of(gpu, &mig, proc));
  }
  return users;
}

Charge charge_of(const GpuUsers& users, const std::string& uuid, std::uint32_t pid) {
  if (!users.problem.empty()) return {std::nullopt, users.problem};
  const DeviceUsers* device = users.of(uuid);
  if (device == nullptr) return {std::nullopt, "NVML does not show this GPU"};
  if (!device->problem.empty()) return {std::nullopt, device->problem};
  if (device->foreign_numbers)
    return {std::nullopt, "in this container NVML names processes by the numbers of another PID namespace"};
  for (const GpuUser& user : device->users) {
    if (user.pid != pid) continue;
    if (user.bytes) return {user.bytes, ""};
    return {std::nullopt, "NVML gives no figure for it"};
  }
  return {std::nullopt, "NVML does not list this process"};
}

std::string packed(const GpuUsers& users) {
  Json json = {{"problem", users.problem}, {"devices", Json::array()}};
  for (const DeviceUsers& device : users.devices) {
    Json one = {{"uuid", device.uuid},
                {"problem", device.problem},
                {"foreign", device.foreign_numbers},
                {"users", Json::array()}};
    for (const GpuUser& user : device.users)
      one["users"].push_back({user.pid, user.name, user.bytes ? Json(*user.bytes) : Json()});
    json["devices"].push_back(std::move(one));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

GpuUsers unpacked(const std::string& text) {
  GpuUsers users;
  try {
    const Json json = parse_json(text);
    users.problem = json.at("problem").get<std::string>();
    for (const Json& one : json.at("devices")) {
      DeviceUsers device;
      device.uuid = one.at("uuid").get<std::string>();
      device.problem = one.at("problem").get<std::string>();
      device.foreign_numbers = one.at("foreign").get<bool>();
      for (const Json& packed_user : one.at("users")) {
        GpuUser user;
        user.pid = packed_user.at(0).get<std::uint32_t>();
        user.name = packed_user.at(1).get<std::string>();
        if (!packed_user.at(2).is_null()) user.bytes = packed_user.at(2).get<std::uint64_t>();
        device.users.push_back(std::move(user));
      }
      users.devices.push_back(std::move(device));
    }
  } catch (const Json::exception&) {
    users = GpuUsers();
    users.unanswered = true;
    users.problem = "the copy of culprit that asked NVML ended without an answer";
  }
  return users;
}

}  // namespace culprit::report
