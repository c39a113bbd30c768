// NVML's account of a device, for one process: a session that stays open, and asks for nothing else, so that an answer
// takes some 20 us.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/gpu_questions.h"
#include "report/doctor/nvml_library.h"

namespace culprit::report {

class NvmlAccounts {
 public:
  // `proc`: where processes are looked for.
  NvmlAccounts(std::string library, std::string proc) : path_(std::move(library)), proc_(std::move(proc)) {}

  // Starts NVML; takes some 20 ms the first time.
  void start();

  // `pid`: as this process sees the one that asks. `uuid`: "GPU-..." or "MIG-...". `names`: those of the largest
  // others, and all lists are read now.
  format::GpuAccount account(const std::string& uuid, std::uint32_t pid, bool names);

 private:
  struct Device {
    std::string uuid;
    nvmlDevice_t handle = nullptr;
    std::map<std::uint32_t, std::uint64_t> others;      // by pid, of the lists besides that of compute processes ...
    std::chrono::steady_clock::time_point others_read;  // ... as they were then
  };
  void add(nvmlDevice_t handle);
  void add_instances(nvmlDevice_t gpu);
  bool add_users(const Device& device, GpuUse use, std::map<std::uint32_t, std::uint64_t>* users);

  const std::string path_;
  const std::string proc_;
  bool started_ = false;
  bool usable_ = false;
  std::unique_ptr<NvmlLibrary> library_;
  std::optional<NvmlProcessLists> lists_;
  std::vector<Device> devices_;
};

}  // namespace culprit::report
