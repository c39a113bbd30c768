// Reads GpuFacts through NVML. The library is opened at run time, so that culprit starts on machines without a driver.
// If an older library lacks a function, its fact stays empty.
#include "report/doctor/nvml.h"

#include <cstring>
#include <set>
#include <tuple>

#include "report/doctor/nvml_library.h"

namespace culprit::report {
namespace {

// More entries than NVML can have; the limit protects our memory against a broken library.
constexpr unsigned kMostEntries = 1 << 16;
// NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE of nvml.h.
constexpr unsigned kTextBytes = 96;

using Library = NvmlLibrary;

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
    const NvmlProcessLists lists(library_, driver_);
    for (const GpuUse use : NvmlProcessLists::kUses) {
      std::vector<nvmlProcessInfo_v2_t> found;
      const nvmlReturn_t code = lists.read(device, use, &found);
      if (code != nvml::kSuccess) {
        const bool refused = use == GpuUse::kCompute || code != nvml::kNotSupported;
        if (needed && refused) unseen("the list of its processes", code);
        if (needed && use == GpuUse::kCompute) return;
        continue;
      }
      if (use == GpuUse::kCompute) gpu_.processes_known = true;
      for (const nvmlProcessInfo_v2_t& one : found) add(one, use, mig);
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
