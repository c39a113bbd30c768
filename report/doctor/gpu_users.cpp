#include "report/doctor/gpu_users.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/base/json_input.h"
#include "report/base/json_output.h"
#include "report/watch/watched_process.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

Json json_of(const GpuUser& user) {
  return {{"pid", user.pid},
          {"name", user.name},
          {"bytes", user.bytes ? Json(*user.bytes) : Json()},
          {"kind", static_cast<int>(user.kind)},
          {"here", user.here},
          {"own_number", user.own_number},
          {"start_ticks", user.start_ticks},
          {"account", user.account},
          {"unreadable", user.unreadable},
          {"computes", user.computes},
          {"gpu_instance", user.gpu_instance ? Json(*user.gpu_instance) : Json()}};
}

GpuUser user_in(const Json& json) {
  GpuUser user;
  user.pid = json.at("pid").get<std::uint32_t>();
  user.name = json.at("name").get<std::string>();
  if (!json.at("bytes").is_null()) user.bytes = json.at("bytes").get<std::uint64_t>();
  user.kind = static_cast<HolderKind>(json.at("kind").get<int>());
  user.here = json.at("here").get<std::uint32_t>();
  user.own_number = json.at("own_number").get<std::uint32_t>();
  user.start_ticks = json.at("start_ticks").get<std::uint64_t>();
  user.account = json.at("account").get<std::string>();
  user.unreadable = json.at("unreadable").get<std::string>();
  user.computes = json.at("computes").get<bool>();
  if (!json.at("gpu_instance").is_null()) user.gpu_instance = json.at("gpu_instance").get<unsigned>();
  return user;
}

DeviceUsers device_in(const Json& json) {
  DeviceUsers device;
  device.uuid = json.at("uuid").get<std::string>();
  device.title = json.at("title").get<std::string>();
  device.gpu = json.at("gpu").get<std::string>();
  if (!json.at("gpu_instance").is_null()) device.gpu_instance = json.at("gpu_instance").get<unsigned>();
  if (!json.at("in_use").is_null()) device.in_use = json.at("in_use").get<std::uint64_t>();
  device.problem = json.at("problem").get<std::string>();
  device.foreign_numbers = json.at("foreign").get<bool>();
  for (const Json& user : json.at("users")) device.users.push_back(user_in(user));
  return device;
}

}  // namespace

const char* holder_kind_name(HolderKind kind) {
  switch (kind) {
    case HolderKind::kProcess:
      return "process";
    case HolderKind::kGhost:
      return "ghost";
    case HolderKind::kReusedPid:
      return "reused-pid";
    case HolderKind::kZombie:
      return "zombie";
    case HolderKind::kStuck:
      return "stuck";
    case HolderKind::kHidden:
      return "hidden";
    case HolderKind::kFilesOnly:
      return "files-only";
  }
  return "process";
}

const DeviceUsers* GpuUsers::of(const std::string& uuid) const {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const DeviceUsers& device) { return device.uuid == uuid; });
  return found == devices.end() ? nullptr : &*found;
}

const ProcessFacts* process_of(const ProcFacts& proc, std::uint32_t number, const std::set<std::uint32_t>& numbers) {
  const ProcessFacts* const same = proc.find(number);
  if (same != nullptr && (same->uses_gpu() || same->state == 'Z' || !same->unreadable.empty())) return same;
  const ProcessFacts* nested = nullptr;
  for (const auto& [pid, process] : proc.processes) {
    if (process.own_number != number || pid == number || !process.uses_gpu() || numbers.count(pid) != 0) continue;
    if (nested != nullptr) return same;  // it may be either
    nested = &process;
  }
  return nested != nullptr ? nested : same;
}

std::set<std::uint32_t> numbers_in(const NvmlFacts& nvml) {
  std::set<std::uint32_t> numbers;
  for (const GpuFacts& gpu : nvml.gpus) {
    for (const GpuProcess& process : gpu.processes) numbers.insert(process.pid);
  }
  return numbers;
}

Charge charge_of(const GpuUsers& users, const std::string& uuid, std::uint32_t pid) {
  if (!users.problem.empty()) return {std::nullopt, users.problem};
  const DeviceUsers* device = users.of(uuid);
  if (device == nullptr) return {std::nullopt, "NVML does not show this GPU"};
  if (!device->problem.empty()) return {std::nullopt, device->problem};
  if (device->foreign_numbers)
    return {std::nullopt, "in this container NVML names processes by the numbers of another PID namespace"};
  for (const GpuUser& user : device->users) {
    if ((user.here != 0 ? user.here : user.pid) != pid) continue;
    if (user.bytes) return {user.bytes, ""};
    return {std::nullopt, "NVML gives no figure for it"};
  }
  return {std::nullopt, "NVML does not list this process"};
}

std::map<std::string, DeviceAnswer> answers_for(const GpuUsers& users, std::uint32_t pid) {
  std::map<std::string, DeviceAnswer> answers;
  for (const DeviceUsers& device : users.devices)
    answers[device.uuid] = {device.in_use, charge_of(users, device.uuid, pid).bytes};
  return answers;
}

std::string packed(const GpuUsers& users) {
  Json json = {{"problem", users.problem}, {"devices", Json::array()}, {"recorders", Json::array()}};
  for (const DeviceUsers& device : users.devices) {
    Json one = {{"uuid", device.uuid},
                {"title", device.title},
                {"gpu", device.gpu},
                {"gpu_instance", device.gpu_instance ? Json(*device.gpu_instance) : Json()},
                {"in_use", device.in_use ? Json(*device.in_use) : Json()},
                {"problem", device.problem},
                {"foreign", device.foreign_numbers},
                {"users", Json::array()}};
    for (const GpuUser& user : device.users) one["users"].push_back(json_of(user));
    json["devices"].push_back(std::move(one));
  }
  for (const Recorder& recorder : users.recorders)
    json["recorders"].push_back({recorder.pid, recorder.own_number, recorder.name, recorder.account, recorder.dump});
  return json_text(json);
}

GpuUsers unpacked(const std::string& text) {
  GpuUsers users;
  try {
    const Json json = parse_json(text);
    users.problem = json.at("problem").get<std::string>();
    for (const Json& one : json.at("devices")) users.devices.push_back(device_in(one));
    for (const Json& one : json.at("recorders")) {
      users.recorders.push_back({one.at(0).get<std::uint32_t>(), one.at(1).get<std::uint32_t>(),
                                 one.at(2).get<std::string>(), one.at(3).get<std::string>(),
                                 one.at(4).get<std::string>()});
    }
  } catch (const Json::exception&) {
    users = GpuUsers();
    users.unanswered = true;
    users.problem = "the copy of culprit that asked NVML ended without an answer";
  }
  return users;
}

}  // namespace culprit::report
