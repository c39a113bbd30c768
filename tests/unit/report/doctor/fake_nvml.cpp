// A libnvidia-ml.so.1 without a GPU: answers what the file that CULPRIT_FAKE_NVML names says, one fact a line.
//
// clang-format off
//   init CODE                           what nvmlInit_v2 returns
//   hang                                nvmlInit_v2 does not return for a minute
//   crash                               nvmlInit_v2 aborts
//   late MICROSECONDS NUMBER            each NUMBERth list of compute processes takes so long
//   driver VERSION                      535.54.03 fills in larger structs in the third version of the lists, as the
//                                       driver of that version does
//   cuda NUMBER                         13000: CUDA 13.0
//   gpu [KEY=VALUE]...                  begins a GPU; values are numbers, `name` and `uuid` are words
//   mig [KEY=VALUE]...                  a MIG device of that GPU: gi ci uuid name total reserved free
//   process compute|graphics|mps PID BYTES|-     of the GPU or MIG device above
// clang-format on
//
// With SIMCUDA_NEIGHBOURS the processes of simulated drivers are in the list of the GPU, too
// (tests/simcuda/neighbours.h).
//
// Keys of a GPU: minor bus total reserved free compute_mode persistence ecc ecc_pending ecc_errors retired
// retirement_pending remapped remap_pending remap_failed mig_pending; handle, memory and processes are codes that the
// calls return instead; v2=0: an older library. A value that is not given is "not supported".
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "report/doctor/nvml_api.h"
#include "tests/simcuda/neighbours.h"

using namespace culprit::report::nvml;

struct nvmlDevice_st {
  std::map<std::string, std::string> facts;
  std::deque<nvmlDevice_st> mig;
  std::map<std::string, std::vector<nvmlProcessInfo_v2_t>> processes;

  bool has(const char* key) const { return facts.count(key) != 0; }
  unsigned long long number(const char* key) const {
    const auto found = facts.find(key);
    return found == facts.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
  }
};

namespace {

constexpr nvmlReturn_t kUninitialized = 1;
constexpr nvmlReturn_t kInvalidArgument = 2;
constexpr nvmlReturn_t kArgumentVersionMismatch = 25;

struct Machine {
  bool running = false;
  nvmlReturn_t init = kSuccess;
  std::string driver;
  int cuda = 0;
  unsigned late_microseconds = 0;
  unsigned late_number = 1;
  std::deque<nvmlDevice_st> gpus;
};
Machine machine;

void read_machine() {
  machine = Machine();
  const char* path = std::getenv("CULPRIT_FAKE_NVML");
  std::ifstream file(path != nullptr ? path : "");
  nvmlDevice_st* device = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "init") words >> machine.init;
    if (what == "hang") std::this_thread::sleep_for(std::chrono::minutes(1));
    if (what == "crash") std::abort();
    if (what == "late") words >> machine.late_microseconds >> machine.late_number;
    if (what == "driver") words >> machine.driver;
    if (what == "cuda") words >> machine.cuda;
    if (what == "gpu" || what == "mig") {
      std::deque<nvmlDevice_st>& list = what == "gpu" ? machine.gpus : machine.gpus.back().mig;
      list.emplace_back();
      device = &list.back();
      for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        device->facts[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
    if (what == "process") {
      std::string use;
      std::string bytes;
      nvmlProcessInfo_v2_t process = {};
      words >> use >> process.pid >> bytes;
      process.usedGpuMemory = bytes == "-" ? kBytesNotAvailable : std::strtoull(bytes.c_str(), nullptr, 10);
      process.gpuInstanceId = device->has("gi") ? static_cast<unsigned>(device->number("gi")) : kNoInstance;
      process.computeInstanceId = device->has("ci") ? static_cast<unsigned>(device->number("ci")) : kNoInstance;
      device->processes[use].push_back(process);
    }
  }
}

nvmlReturn_t text_of(const std::string& from, char* to, unsigned size) {
  if (from.empty()) return kNotSupported;
  if (from.size() >= size) return kInsufficientSize;
  std::memcpy(to, from.c_str(), from.size() + 1);
  return kSuccess;
}

template <typename Value>
nvmlReturn_t fact(nvmlDevice_t device, const char* key, Value* value) {
  if (!machine.running) return kUninitialized;
  if (device == nullptr || value == nullptr) return kInvalidArgument;
  if (!device->has(key)) return kNotSupported;
  *value = static_cast<Value>(device->number(key));
  return kSuccess;
}

// The processes of simulated drivers that use the GPU; by their numbers for the process that asks.
void add_simulated(nvmlDevice_t device, std::vector<nvmlProcessInfo_v2_t>* found) {
  static const simcuda::SharedMachine* const shared = simcuda::map_machine();
  if (shared == nullptr) return;
  std::size_t ordinal = 0;
  while (ordinal < machine.gpus.size() && &machine.gpus[ordinal] != device) ++ordinal;
  if (ordinal >= machine.gpus.size() || ordinal >= simcuda::kSharedDevices) return;
  for (const simcuda::SharedProcess& one : shared->processes) {
    const std::int32_t pid = __atomic_load_n(&one.pid, __ATOMIC_ACQUIRE);
    nvmlProcessInfo_v2_t process = {};
    process.pid = static_cast<unsigned>(pid);
    process.usedGpuMemory = __atomic_load_n(&one.used[ordinal], __ATOMIC_ACQUIRE);
    process.gpuInstanceId = process.computeInstanceId = kNoInstance;
    if (process.usedGpuMemory != 0 && simcuda::is_running(pid)) found->push_back(process);
  }
}

nvmlReturn_t list(nvmlDevice_t device, const char* use, unsigned* count, nvmlProcessInfo_v2_t* infos) {
  if (device->has("processes")) return static_cast<nvmlReturn_t>(device->number("processes"));
  std::vector<nvmlProcessInfo_v2_t> found = device->processes[use];
  if (std::strcmp(use, "compute") == 0) {
    static unsigned lists = 0;
    add_simulated(device, &found);
    if (machine.late_microseconds != 0 && ++lists % machine.late_number == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(machine.late_microseconds));
  }
  const bool fits = found.size() <= *count;
  *count = static_cast<unsigned>(found.size());
  if (!fits) return kInsufficientSize;
  if (!found.empty()) std::memcpy(infos, found.data(), found.size() * sizeof(found[0]));
  return kSuccess;
}

// The third version of a list, into `infos` as the driver 535.54.03 lays them out: 32 bytes each.
nvmlReturn_t third_list(nvmlDevice_t device, const char* use, unsigned* count, nvmlProcessInfo_v2_t* infos) {
  const unsigned room = *count;
  const nvmlReturn_t code = list(device, use, count, infos);
  if (machine.driver != "535.54.03" || code != kSuccess) return code;
  constexpr std::size_t kLarger = 32;
  std::string bytes(std::size_t{room} * sizeof(nvmlProcessInfo_v2_t), '\0');
  for (unsigned i = 0; i < *count && (i + 1) * kLarger <= bytes.size(); ++i)
    std::memcpy(bytes.data() + i * kLarger, &infos[i], sizeof(infos[i]));
  std::memcpy(infos, bytes.data(), bytes.size());
  return kSuccess;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() {
  read_machine();
  machine.running = machine.init == kSuccess;
  return machine.init;
}
nvmlReturn_t nvmlShutdown() {
  machine.running = false;
  return kSuccess;
}
const char* nvmlErrorString(nvmlReturn_t code) {
  return code == kNoPermission      ? "Insufficient Permissions"
         : code == kDriverNotLoaded ? "Driver Not Loaded"
         : code == kVersionMismatch ? "Driver/library version mismatch"
         : code == 15               ? "GPU is lost"
                                    : "Unknown Error";
}
nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned size) { return text_of(machine.driver, version, size); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = machine.cuda;
  return machine.cuda == 0 ? kNotSupported : kSuccess;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  *pci = {};
  return fact(device, "bus", &pci->bus);
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(machine.gpus.size());
  return kSuccess;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (index >= machine.gpus.size()) return kInvalidArgument;
  *device = &machine.gpus[index];
  return static_cast<nvmlReturn_t>((*device)->number("handle"));
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned size) {
  return text_of(device->facts["name"], name, size);
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned size) {
  return text_of(device->facts["uuid"], uuid, size);
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* minor) { return fact(device, "minor", minor); }
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  if (memory->version != kMemoryV2) return kArgumentVersionMismatch;
  if (device->has("memory")) return static_cast<nvmlReturn_t>(device->number("memory"));
  if (device->has("v2") && device->number("v2") == 0) return kNotSupported;
  memory->total = device->number("total");
  memory->reserved = device->number("reserved");
  memory->free = device->number("free");
  // Header and drivers disagree about this field, so culprit should not read it.
  memory->used = 12345;
  return kSuccess;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  if (device->has("memory")) return static_cast<nvmlReturn_t>(device->number("memory"));
  memory->total = device->number("total");
  memory->free = device->number("free");
  memory->used = memory->total - memory->free;
  return kSuccess;
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int* mode) { return fact(device, "compute_mode", mode); }
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int* mode) { return fact(device, "persistence", mode); }
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int* current, int* pending) {
  fact(device, "ecc", pending);
  fact(device, "ecc_pending", pending);
  return fact(device, "ecc", current);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter, unsigned long long* count) {
  if (type != 1 || counter != 0) return kInvalidArgument;
  return fact(device, "ecc_errors", count);
}
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned* count, unsigned long long* addresses) {
  if (!device->has("retired")) return kNotSupported;
  if (*count != 0 || addresses != nullptr) return kInvalidArgument;
  *count = cause == kRetiredDoubleBit ? static_cast<unsigned>(device->number("retired")) : 0;
  return *count == 0 ? kSuccess : kInsufficientSize;
}
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int* pending) {
  return fact(device, "retirement_pending", pending);
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* corrected, unsigned* uncorrected,
                                       unsigned* pending, unsigned* failed) {
  *corrected = *pending = *failed = 0;
  fact(device, "remap_pending", pending);
  fact(device, "remap_failed", failed);
  return fact(device, "remapped", uncorrected);
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  *current = *pending = device->mig.empty() ? 0 : 1;
  fact(device, "mig_pending", pending);
  return kSuccess;
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t, unsigned* count) {
  *count = 7;
  return kSuccess;
}
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t* mig) {
  if (index >= device->mig.size()) return kNotFound;
  *mig = &device->mig[index];
  return kSuccess;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned* id) { return fact(device, "gi", id); }
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned* id) { return fact(device, "ci", id); }
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return list(device, "compute", count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                      nvmlProcessInfo_v2_t* infos) {
  return list(device, "graphics", count, infos);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                        nvmlProcessInfo_v2_t* infos) {
  return list(device, "mps", count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return third_list(device, "compute", count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                      nvmlProcessInfo_v2_t* infos) {
  return third_list(device, "graphics", count, infos);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                        nvmlProcessInfo_v2_t* infos) {
  return third_list(device, "mps", count, infos);
}

}  // extern "C"
