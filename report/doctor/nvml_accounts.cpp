#include "report/doctor/nvml_accounts.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

using format::GpuAccount;
using format::GpuProblem;

constexpr unsigned kUuidBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
constexpr std::chrono::milliseconds kOthersAge{250};
constexpr unsigned kMostHandles = 64;  // GPUs of a machine, and instances of a GPU

}  // namespace

void NvmlAccounts::add(nvmlDevice_t handle) {
  char uuid[kUuidBytes] = {};
  if (library_->call("nvmlDeviceGetUUID", handle, static_cast<char*>(uuid), kUuidBytes) != nvml::kSuccess) return;
  devices_.push_back({std::string(uuid, ::strnlen(uuid, sizeof(uuid))), handle, {}, {}});
}

void NvmlAccounts::add_instances(nvmlDevice_t gpu) {
  unsigned count = 0;
  if (library_->call("nvmlDeviceGetMaxMigDeviceCount", gpu, &count) != nvml::kSuccess) return;
  for (unsigned i = 0; i < std::min(count, kMostHandles); ++i) {
    nvmlDevice_t instance = nullptr;
    if (library_->call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, i, &instance) == nvml::kSuccess) add(instance);
  }
}

void NvmlAccounts::start() {
  if (started_) return;
  started_ = true;
  library_ = std::make_unique<NvmlLibrary>(path_);
  if (!library_->problem().empty() || library_->call("nvmlInit_v2") != nvml::kSuccess) return;
  char driver[80] = {};
  library_->call("nvmlSystemGetDriverVersion", static_cast<char*>(driver), static_cast<unsigned>(sizeof(driver)));
  lists_.emplace(*library_, std::string(driver, ::strnlen(driver, sizeof(driver))));
  unsigned count = 0;
  library_->call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < std::min(count, kMostHandles); ++i) {
    nvmlDevice_t gpu = nullptr;
    if (library_->call("nvmlDeviceGetHandleByIndex_v2", i, &gpu) != nvml::kSuccess) continue;
    add(gpu);
    add_instances(gpu);
  }
  usable_ = true;
}

bool NvmlAccounts::add_users(const Device& device, GpuUse use, std::map<std::uint32_t, std::uint64_t>* users) {
  std::vector<nvmlProcessInfo_v2_t> found;
  if (lists_->read(device.handle, use, &found) != nvml::kSuccess) return false;
  for (const nvmlProcessInfo_v2_t& one : found) {
    std::uint64_t& bytes = (*users)[one.pid];
    bytes = std::max<std::uint64_t>(bytes, one.usedGpuMemory);  // kBytesNotAvailable is the largest
  }
  return true;
}

GpuAccount NvmlAccounts::account(const std::string& uuid, std::uint32_t pid, bool names) {
  start();
  GpuAccount account = {};
  account.problem = GpuProblem::kNoNvml;
  if (!usable_) return account;
  account.problem = GpuProblem::kNotShown;
  const auto device =
      std::find_if(devices_.begin(), devices_.end(), [&](const Device& one) { return one.uuid == uuid; });
  if (device == devices_.end()) return account;
  account.problem = GpuProblem::kNoList;
  // A process that both draws and computes is in two lists with the same bytes.
  std::map<std::uint32_t, std::uint64_t> users;
  if (!add_users(*device, GpuUse::kCompute, &users)) return account;
  // Those that only draw, or are clients of MPS, come and go seldom, and each list takes as long as a short call.
  const auto now = std::chrono::steady_clock::now();
  if (names || users.count(pid) == 0 || now > device->others_read + kOthersAge) {
    device->others.clear();
    for (const GpuUse use : NvmlProcessLists::kUses) {
      if (use != GpuUse::kCompute) add_users(*device, use, &device->others);
    }
    device->others_read = now;
  }
  for (const auto& [other, bytes] : device->others) {
    if (other != pid || users.count(pid) == 0) users[other] = std::max(users[other], bytes);
  }
  const auto own = users.find(pid);
  account.problem = GpuProblem::kNone;
  if (own == users.end()) {
    const bool foreign = std::any_of(users.begin(), users.end(), [&](const auto& user) {
      return ProcessFolder(proc_, std::uint64_t{user.first}).has_ended();
    });
    account.problem = foreign ? GpuProblem::kOtherNumbers : GpuProblem::kNotListed;
    return account;
  }
  if (own->second == nvml::kBytesNotAvailable) account.problem = GpuProblem::kNoFigure;
  account.own_bytes = own->second;
  users.erase(own);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> others;
  for (const auto& [other, bytes] : users) {
    others.emplace_back(bytes == nvml::kBytesNotAvailable ? 0 : bytes, other);
    account.others_bytes += others.back().first;
  }
  account.others = static_cast<std::uint32_t>(others.size());
  std::sort(others.rbegin(), others.rend());
  for (std::size_t i = 0; i < others.size() && i < GpuAccount::kLargest; ++i) {
    account.largest[i].pid = others[i].second;
    account.largest[i].bytes = others[i].first;
    if (!names) continue;
    const std::string name = ProcessFolder(proc_, std::uint64_t{others[i].second}).name();
    std::memcpy(account.largest[i].name, name.c_str(), std::min(name.size(), sizeof(account.largest[i].name) - 1));
  }
  return account;
}

}  // namespace culprit::report
