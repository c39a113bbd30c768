// NVIDIA's management library, opened while an object of this lives.
#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>
#include <vector>

#include "report/doctor/gpu_facts.h"
#include "report/doctor/known_issues.h"
#include "report/doctor/nvml_api.h"

namespace culprit::report {

class NvmlLibrary {
 public:
  explicit NvmlLibrary(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* why = ::dlerror();
    problem_ = why != nullptr ? why : path + " cannot be opened";
  }
  ~NvmlLibrary() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const std::string& problem() const { return problem_; }
  bool has(const char* name) const { return handle_ != nullptr && ::dlsym(handle_, name) != nullptr; }

  // Calls `name`; an absent function answers kNotSupported.
  template <typename... Arguments>
  nvmlReturn_t call(const char* name, Arguments... arguments) const {
    void* found = handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
    if (found == nullptr) return nvml::kNotSupported;
    return reinterpret_cast<nvmlReturn_t (*)(Arguments...)>(found)(arguments...);
  }

  std::string error(nvmlReturn_t code) const {
    void* found = handle_ == nullptr ? nullptr : ::dlsym(handle_, "nvmlErrorString");
    const char* text = found == nullptr ? nullptr : reinterpret_cast<const char* (*)(nvmlReturn_t)>(found)(code);
    return text != nullptr ? text : "NVML error " + std::to_string(code);
  }

 private:
  void* handle_;
  std::string problem_;
};

// The lists of a device's processes, by use, and the function for each with this driver.
class NvmlProcessLists {
 public:
  static constexpr GpuUse kUses[] = {GpuUse::kCompute, GpuUse::kMps, GpuUse::kGraphics};

  // Drivers before 510, and 535.98, lack the third version; from 535.43.02 to 535.86.05 it fills in a larger struct.
  // Source: nvml.h of each driver, in github.com/NVIDIA/nvidia-settings.
  NvmlProcessLists(const NvmlLibrary& library, const std::string& driver)
      : library_(library),
        third_(library.has("nvmlDeviceGetComputeRunningProcesses_v3") && !has_version("535.43.02..535.98", driver)) {}

  nvmlReturn_t read(nvmlDevice_t device, GpuUse use, std::vector<nvmlProcessInfo_v2_t>* found) const {
    // More entries than NVML can have; the limit protects our memory against a broken library.
    constexpr unsigned kMostEntries = 1 << 16;
    const std::string kind = use == GpuUse::kCompute ? "Compute" : use == GpuUse::kMps ? "MPSCompute" : "Graphics";
    const std::string function = "nvmlDeviceGet" + kind + (third_ ? "RunningProcesses_v3" : "RunningProcesses_v2");
    found->resize(64);
    nvmlReturn_t code = nvml::kInsufficientSize;
    unsigned count = 0;
    // The list may have grown between two calls.
    while (code == nvml::kInsufficientSize && found->size() <= kMostEntries) {
      count = static_cast<unsigned>(found->size());
      code = library_.call(function.c_str(), device, &count, found->data());
      if (code == nvml::kInsufficientSize) found->resize(found->size() * 4);
    }
    found->resize(code == nvml::kSuccess && count < found->size() ? count : code == nvml::kSuccess ? found->size() : 0);
    return code;
  }

 private:
  const NvmlLibrary& library_;
  const bool third_;
};

}  // namespace culprit::report
