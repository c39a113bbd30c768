// NVML's report about the machine's GPUs: facts without judgement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace culprit::report {

struct GpuMemory {
  std::uint64_t total = 0;
  std::uint64_t reserved = 0;  // by the driver and the firmware for themselves
  std::uint64_t free = 0;
  std::uint64_t used() const { return total - (reserved + free < total ? reserved + free : total); }
};

enum class GpuUse { kCompute, kGraphics, kMps };

// One line of NVML's list of processes. The pid is NVML's, even if that process is gone or hidden.
struct GpuProcess {
  std::uint32_t pid = 0;
  GpuUse use = GpuUse::kCompute;
  std::optional<std::uint64_t> bytes;  // empty: not reported by NVML
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
  std::string pci;  // "0000:06:00"; empty: not known
  std::optional<GpuMemory> memory;
  bool processes_known = false;
  std::vector<GpuProcess> processes;
  bool mig = false;
  std::optional<bool> mig_pending;  // after the next reset
  std::vector<MigDevice> mig_devices;
  ComputeMode compute_mode = ComputeMode::kUnknown;
  std::optional<bool> persistence;
  std::optional<bool> ecc;
  std::optional<bool> ecc_pending;          // the state of ECC after the next reset
  std::optional<std::uint64_t> ecc_errors;  // uncorrected, since the driver was loaded
  std::optional<std::uint64_t> retired_pages;
  bool retirement_pending = false;
  std::optional<std::uint64_t> remapped_rows;
  bool remap_pending = false;
  bool remap_failed = false;
  std::vector<std::string> unseen;  // facts that NVML refused to report, in words
};

// "0000:06:00": a PCI address as the kernel log has it.
std::string pci_text(unsigned domain, unsigned bus, unsigned device);

struct NvmlFacts {
  bool available = false;
  std::string problem;  // why NVML is not available
  std::string driver;   // "580.65.06"
  std::string cuda;     // "13.0": the newest CUDA version that the driver supports; empty: not known
  std::vector<GpuFacts> gpus;
  std::vector<std::string> unseen;
};

}  // namespace culprit::report
