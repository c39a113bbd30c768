// The functions and pieces of code of the process's libc that an injection uses.
#pragma once

#include <cstdint>
#include <vector>

#include "report/attach/hijacked_thread.h"
#include "report/attach/loader_locks.h"
#include "report/attach/registers.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

constexpr std::uint64_t kLoadNow = 2;  // RTLD_NOW

// Functions of the process's libc.
struct TargetLibc {
  std::uint64_t open_library = 0;  // dlopen, or __libc_dlopen_mode before glibc 2.34
  std::uint64_t open_mode = kLoadNow;
  std::uint64_t last_error = 0;   // dlerror; 0 = not found
  std::uint64_t error_place = 0;  // __errno_location
  // Of a lock that fork() takes in a process with several threads, and that is held during dlopen().
  std::uint64_t fork_lock = 0;
  std::uint64_t fork_unlock = 0;
  std::uint64_t idle = 0;
  WaitFunctions wait;
  ReturnCode code;
  std::vector<MappedRange> loader_data;
  LoadingLock loading;
};

// Throws AttachError when there is no glibc, or an unknown one.
TargetLibc look_at_libc(const TracedProcess& process);

}  // namespace culprit::report
