// Reads GpuFacts through NVML. The library is opened at run time, so that culprit starts on machines without a driver.
// If an older library lacks a function, its fact stays empty.
#include "report/doctor/nvml.h"

#include <dlfcn.h>

#include <cstring>
#include <set>
#include <tuple>

#include "report/doctor/known_issues.h"
#include "report/doctor/nvml_api.h"

namespace culprit::report {
namespace {

// More entries than NVML can have; the limit protects our memory against a broken library.
constexpr unsigned kMostEntries = 1 << 16;
// NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE of nvml.h.
constexpr unsigned kTextBytes = 96;

class Library {
 public:
  explicit Library(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* why = ::dlerror();
    problem_ = why != nullptr ? why : path + " cannot be opened";
  }
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

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

class GpuReader {
 public:
  GpuReader(const Library& library, const std::string& driver, nvmlDevice_t device, GpuFacts* gpu)
      : library_(library), driver_(driver), device_(device), gpu_(*gpu) {}

  void read() {
    gpu_.name = text("nvmlDeviceGetName", device_);
    gpu_.uuid = text("nvmlDeviceGetUUID", device_);
    unsigned minor = 0;
    if (library_.call("nvmlDeviceGetMinorNumber", device_, &minor) == nvml::kSuccess) gpu_.minor = minor;
    nvmlPciInfo_t pci = {};
    if (library_.call("nvmlDeviceGetPciInfo_v3", device_, &pci) == nvml::kSuccess)
      gpu_.pci = pci_text(pci.domain, pci.bus, pci.device);
    gpu_.memory = memory(device_, "its memory");
    read_modes();
    read_ecc();
    read_mig();
    read_processes(device_, !gpu_.mig);
  }

 private:
  void unseen(const std::string& what, nvmlReturn_t code) {
    std::string line = what + ": " + library_.error(code);
    if (code == nvml::kNoPermission) line += " (try as root)";
    gpu_.unseen.push_back(line);
  }

  std::string text(const char* function, nvmlDevice_t device) const {
    char buffer[kTextBytes] = {};
    if (library_.call(function, device, static_cast<char*>(buffer), kTextBytes) != nvml::kSuccess) return {};
    return std::string(buffer, ::strnlen(buffer, sizeof(buffer)));
  }

  std::optional<GpuMemory> memory(nvmlDevice_t device, const std::string& what) {
    GpuMemory result;
    nvmlMemory_v2_t second = {};
    second.version = nvml::kMemoryV2;
    if (library_.call("nvmlDeviceGetMemoryInfo_v2", device, &second) == nvml::kSuccess) {
      result.total = second.total;
      result.reserved = second.reserved;
      result.free = second.free;
      return result;
    }
    nvmlMemory_t first = {};
    const nvmlReturn_t code = library_.call("nvmlDeviceGetMemoryInfo", device, &first);
    if (code != nvml::kSuccess) {
      unseen(what, code);
      return std::nullopt;
    }
    result.total = first.total;
    result.free = first.free;
    return result;
  }

  void read_modes() {
    int mode = -1;
    if (library_.call("nvmlDeviceGetComputeMode", device_, &mode) == nvml::kSuccess) {
      gpu_.compute_mode = mode == nvml::kComputeDefault            ? ComputeMode::kDefault
                          : mode == nvml::kComputeExclusiveThread  ? ComputeMode::kExclusiveThread
                          : mode == nvml::kComputeProhibited       ? ComputeMode::kProhibited
                          : mode == nvml::kComputeExclusiveProcess ? ComputeMode::kExclusiveProcess
                                                                   : ComputeMode::kUnknown;
    }
    int on = 0;
    if (library_.call("nvmlDeviceGetPersistenceMode", device_, &on) == nvml::kSuccess) gpu_.persistence = on != 0;
  }

  void read_ecc() {
    int current = 0;
    int pending = 0;
    if (library_.call("nvmlDeviceGetEccMode", device_, &current, &pending) == nvml::kSuccess) {
      gpu_.ecc = current != 0;
      gpu_.ecc_pending = pending != 0;
    }
    constexpr int kUncorrected = 1;
    constexpr int kVolatile = 0;
    unsigned long long errors = 0;
    if (library_.call("nvmlDeviceGetTotalEccErrors", device_, kUncorrected, kVolatile, &errors) == nvml::kSuccess)
      gpu_.ecc_errors = errors;

    // Up to Volta pages are retired, from Ampere on rows are remapped; the other query returns "not supported".
    for (const int cause : {nvml::kRetiredSingleBit, nvml::kRetiredDoubleBit}) {
      unsigned count = 0;
      unsigned long long* no_addresses = nullptr;
      const nvmlReturn_t code = library_.call("nvmlDeviceGetRetiredPages", device_, cause, &count, no_addresses);
      if (code == nvml::kSuccess || code == nvml::kInsufficientSize)
        gpu_.retired_pages = gpu_.retired_pages.value_or(0) + count;
    }
    int is_pending = 0;
    if (library_.call("nvmlDeviceGetRetiredPagesPendingStatus", device_, &is_pending) == nvml::kSuccess)
      gpu_.retirement_pending = is_pending != 0;
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned remap_pending = 0;
    unsigned failed = 0;
    if (library_.call("nvmlDeviceGetRemappedRows", device_, &corrected, &uncorrected, &remap_pending, &failed) ==
        nvml::kSuccess) {
      gpu_.remapped_rows = std::uint64_t{corrected} + uncorrected;
      gpu_.remap_pending = remap_pending != 0;
      gpu_.remap_failed = failed != 0;
    }
  }

  void read_mig() {
    unsigned current = 0;
    unsigned pending = 0;
    if (library_.call("nvmlDeviceGetMigMode", device_, &current, &pending) != nvml::kSuccess) return;
    gpu_.mig_pending = pending != 0;
    if (current == 0) return;
    gpu_.mig = true;
    unsigned count = 0;
    library_.call("nvmlDeviceGetMaxMigDeviceCount", device_, &count);
    for (unsigned i = 0; i < count && i < kMostEntries; ++i) {
      nvmlDevice_t device = nullptr;
      const nvmlReturn_t code = library_.call("nvmlDeviceGetMigDeviceHandleByIndex", device_, i, &device);
      if (code == nvml::kNotFound) continue;  // an unused slot
      if (code != nvml::kSuccess) {
        unseen("MIG device " + std::to_string(i), code);
        continue;
      }
      MigDevice mig;
      mig.index = i;
      mig.name = text("nvmlDeviceGetName", device);
      mig.uuid = text("nvmlDeviceGetUUID", device);
      unsigned id = 0;
      if (library_.call("nvmlDeviceGetGpuInstanceId", device, &id) == nvml::kSuccess) mig.gpu_instance = id;
      if (library_.call("nvmlDeviceGetComputeInstanceId", device, &id) == nvml::kSuccess) mig.compute_instance = id;
      mig.memory = memory(device, "the memory of MIG device " + std::to_string(i));
      read_processes(device, true, &mig);
      gpu_.mig_devices.push_back(mig);
    }
  }

  // `needed`: report a refusal. With MIG only root may read the whole GPU's list, but every user the list of a MIG
  // device.
  void read_processes(nvmlDevice_t device, bool needed, const MigDevice* mig = nullptr) {
    static constexpr struct {
      const char* functions[2];
      GpuUse use;
    } kLists[] = {
        {{"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"}, GpuUse::kCompute},
        {{"nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v3"}, GpuUse::kMps},
        {{"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v3"}, GpuUse::kGraphics}};
    // Drivers before 510, and 535.98, lack the third version; from 535.43.02 to 535.86.05 it fills in a larger struct.
    // Source: nvml.h of each driver, in github.com/NVIDIA/nvidia-settings.
    const bool third = library_.has(kLists[0].functions[1]) && !has_version("535.43.02..535.98", driver_);
    for (const auto& list : kLists) {
      const char* const function = list.functions[third ? 1 : 0];
      std::vector<nvmlProcessInfo_v2_t> found(64);
      unsigned count = 0;
      nvmlReturn_t code = nvml::kInsufficientSize;
      // The list may have grown between two calls.
      while (code == nvml::kInsufficientSize && found.size() <= kMostEntries) {
        count = static_cast<unsigned>(found.size());
        code = library_.call(function, device, &count, found.data());
        if (code == nvml::kInsufficientSize) found.resize(found.size() * 4);
      }
      if (code != nvml::kSuccess) {
        const bool refused = list.use == GpuUse::kCompute || code != nvml::kNotSupported;
        if (needed && refused) unseen("the list of its processes", code);
        if (needed && list.use == GpuUse::kCompute) return;
        continue;
      }
      if (list.use == GpuUse::kCompute) gpu_.processes_known = true;
      found.resize(count < found.size() ? count : found.size());
      for (const nvmlProcessInfo_v2_t& one : found) add(one, list.use, mig);
    }
  }

  void add(const nvmlProcessInfo_v2_t& info, GpuUse use, const MigDevice* mig) {
    GpuProcess process;
    process.pid = info.pid;
    process.use = use;
    if (info.usedGpuMemory != nvml::kBytesNotAvailable) process.bytes = info.usedGpuMemory;
    if (info.gpuInstanceId != nvml::kNoInstance) process.gpu_instance = info.gpuInstanceId;
    if (info.computeInstanceId != nvml::kNoInstance) process.compute_instance = info.computeInstanceId;
    if (mig != nullptr && !process.gpu_instance) process.gpu_instance = mig->gpu_instance;
    if (mig != nullptr && !process.compute_instance) process.compute_instance = mig->compute_instance;
    // A process that both draws and computes is in two lists with the same bytes.
    if (seen_.insert({process.pid, info.gpuInstanceId, info.computeInstanceId}).second)
      gpu_.processes.push_back(process);
  }

  const Library& library_;
  const std::string& driver_;
  const nvmlDevice_t device_;
  GpuFacts& gpu_;
  std::set<std::tuple<std::uint32_t, unsigned, unsigned>> seen_;
};

std::string init_problem(const Library& library, nvmlReturn_t code) {
  std::string text = library.error(code);
  if (code == nvml::kDriverNotLoaded) text += " (the kernel module nvidia is not loaded, or this container has no GPU)";
  if (code == nvml::kVersionMismatch) {
    text += " (the driver was updated while its old kernel module is loaded: reload the module, or reboot)";
  }
  if (code == nvml::kNoPermission) text += " (the rights of /dev/nvidiactl are missing: try as root)";
  return text;
}

}  // namespace

NvmlFacts read_nvml(const std::string& path) {
  NvmlFacts facts;
  const Library library(path);
  if (!library.problem().empty()) {
    facts.problem = library.problem();
    return facts;
  }
  nvmlReturn_t code = library.call("nvmlInit_v2");
  if (code != nvml::kSuccess) {
    facts.problem = init_problem(library, code);
    return facts;
  }
  facts.available = true;
  char version[80] = {};  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
  if (library.call("nvmlSystemGetDriverVersion", static_cast<char*>(version), static_cast<unsigned>(sizeof(version))) ==
      nvml::kSuccess) {
    facts.driver.assign(version, ::strnlen(version, sizeof(version)));
  }
  int cuda = 0;
  if (library.call("nvmlSystemGetCudaDriverVersion_v2", &cuda) == nvml::kSuccess)
    facts.cuda = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  unsigned count = 0;
  code = library.call("nvmlDeviceGetCount_v2", &count);
  if (code != nvml::kSuccess) facts.unseen.push_back("the list of GPUs: " + library.error(code));
  for (unsigned i = 0; i < count && i < kMostEntries; ++i) {
    nvmlDevice_t device = nullptr;
    code = library.call("nvmlDeviceGetHandleByIndex_v2", i, &device);
    GpuFacts gpu;
    gpu.index = i;
    if (code == nvml::kSuccess) {
      GpuReader(library, facts.driver, device, &gpu).read();
    } else {
      gpu.unseen.push_back("the GPU itself: " + library.error(code) +
                           (code == nvml::kNoPermission ? " (try as root)" : ""));
    }
    facts.gpus.push_back(std::move(gpu));
  }
  library.call("nvmlShutdown");
  return facts;
}

}  // namespace culprit::report
