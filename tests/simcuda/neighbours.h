// The memory that simulated drivers of several processes have on the same devices: a file that each of them maps
// (SIMCUDA_NEIGHBOURS). The simulated NVML of tests/unit/report/doctor/fake_nvml.cpp reads it, too.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace simcuda {

constexpr int kSharedDevices = 16;

struct SharedProcess {
  std::int32_t pid;  // 0: free
  std::int32_t reserved;
  std::uint64_t used[kSharedDevices];  // 0: no context there
};

struct SharedMachine {
  static constexpr int kProcesses = 128;
  SharedProcess processes[kProcesses];
};

inline bool is_running(std::int32_t pid) { return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM); }

// nullptr: SIMCUDA_NEIGHBOURS is not set.
inline SharedMachine* map_machine() {
  const char* path = getenv("SIMCUDA_NEIGHBOURS");
  if (path == nullptr || *path == '\0') return nullptr;
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || ftruncate(file, sizeof(SharedMachine)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(SharedMachine), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<SharedMachine*>(memory);
}

}  // namespace simcuda
