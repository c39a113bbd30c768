// What NVML says about the machine's GPUs: plain facts, nothing judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

struct GpuMemory {
  std::uint64_t total = 0;
  std::uint64_t reserved = 0;  // by the driver and the firmware, for themselves
  std::uint64_t free = 0;
  std::uint64_t used() const { return total - (reserved + free < total ? reserved + free : total); }
};

enum class GpuUse { kCompute, kGraphics, kMps };

// One line of NVML's list of processes. The number is the one that NVML told, whatever is behind it.
struct GpuProcess {
  std::uint32_t pid = 0;
  GpuUse use = GpuUse::kCompute;
  std::optional<std::uint64_t> bytes;  // empty: NVML does not tell
  std::optional<unsigned> gpu_instance;
  std::optional<unsigned> compute_instance;
};

struct MigDevice {
  unsigned index = 0;
  std::string uuid;
  std::string name;
  std::optional<unsigned> gpu_instance;
  std::optional<unsigned> compute_instance;
  std::optional<GpuMemory> memory;
};

enum class ComputeMode { kUnknown, kDefault, kExclusiveThread, kProhibited, kExclusiveProcess };

struct GpuFacts {
  unsigned index = 0;
  std::optional<unsigned> minor;  // N of /dev/nvidiaN
  std::string name;
  std::string uuid;
  std::optional<GpuMemory> memory;
  bool processes_known = false;
  std::vector<GpuProcess> processes;
  bool mig = false;
  std::vector<MigDevice> mig_devices;
  ComputeMode compute_mode = ComputeMode::kUnknown;
  std::optional<bool> persistence;
  std::optional<bool> ecc;
  std::optional<bool> ecc_pending;          // what ECC will be after the next reset
  std::optional<std::uint64_t> ecc_errors;  // uncorrected, since the driver was loaded
  std::optional<std::uint64_t> retired_pages;
  bool retirement_pending = false;
  std::optional<std::uint64_t> remapped_rows;
  bool remap_pending = false;
  bool remap_failed = false;
  std::vector<std::string> unseen;  // what NVML refused to tell, in words
};

struct NvmlFacts {
  bool available = false;
  std::string problem;  // why it is not available
  std::string driver;   // "580.65.06"
  std::vector<GpuFacts> gpus;
  std::vector<std::string> unseen;
};

// Asks the library at `library` ("libnvidia-ml.so.1": wherever the loader finds it). Never throws: what cannot be asked
// becomes a `problem` or a line of `unseen`. Not thread-safe.
NvmlFacts read_nvml(const std::string& library);

}  // namespace culprit
