#include "interpose/causes/process_facts.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/module_name.h"
#include "interpose/base/own_module.h"
#include "interpose/base/text_writer.h"
#include "interpose/causes/driver_threads.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/os.h"
#include "interpose/system/own_files.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

// getdents64(2).
struct FolderEntry {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t bytes;
  std::uint8_t type;
  char name[];
};

// Calls visit(name) for each entry of a folder of this process in /proc, until it returns false. Returns whether all
// were visited.
template <typename Visit>
bool for_each_entry(const char* folder, Visit visit) {
  if (calls_restricted_now()) return false;
  const int fd = open_own_file(folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return false;
  alignas(8) char buffer[2048] = {};
  bool all = true;
  for (;;) {
    const long got = system_call(SYS_getdents64, fd, buffer, sizeof(buffer));
    if (got <= 0) {
      all = all && got == 0;
      break;
    }
    for (long at = 0; at < got && all;) {
      const auto* entry = reinterpret_cast<const FolderEntry*>(buffer + at);
      if (entry->name[0] != '.') all = visit(static_cast<const char*>(entry->name));
      at += entry->bytes;
    }
    if (!all) break;
  }
  os.close_file(fd);
  return all;
}

// The stack pointer of a thread that waits in a system call; 0: it runs, or that is not known. The file has the number
// of the call, six arguments, the stack pointer and the program counter.
std::uint64_t stack_pointer_of(const char* thread) {
  char path[64];
  TextWriter(path, sizeof(path)) << "/proc/self/task/" << thread << "/syscall";
  char text[256];
  if (read_small_file(path, text, sizeof(text)) == 0) return 0;
  constexpr int kBefore = 7;
  const char* at = text;
  for (int i = 0; i < kBefore; ++i) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return 0;
    ++at;
  }
  return std::strtoull(at, nullptr, 16);
}

constexpr int kTries = 20;
constexpr std::uint32_t kPauseMicroseconds = 1000;

OtherThreads look_at_thread(const char* thread, const MemoryMap& map, DriverThreads* drivers) {
  std::uint64_t stack = stack_pointer_of(thread);
  // A thread that has just begun, or that does something short.
  for (int tries = 0; stack == 0 && tries < kTries; ++tries) {
    sleep_microseconds(kPauseMicroseconds);
    stack = stack_pointer_of(thread);
  }
  switch (owner_of_stack(stack, map)) {
    case StackOwner::kDriver:
      drivers->add(stack, map);
      return OtherThreads::kNone;
    case StackOwner::kProgram:
      return OtherThreads::kProgram;
    case StackOwner::kUnknown:
      break;
  }
  return OtherThreads::kUnknown;
}

// Returns check(module, info) for the first module that defines the function, which calls of it reach; false: none
// does.
template <typename Check>
bool check_first_definition(const char* name, Check check) {
  bool result = false;
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (!defines_symbol(module, name, gnu_hash_of(name))) return false;
    result = check(module, info);
    return true;
  });
  return result;
}

bool is_ours(const char* name) {
  return check_first_definition(
      name, [](const ElfModule& module, const struct dl_phdr_info&) { return in_own_module(module.begin); });
}

// The target of a descriptor of this process, as the kernel writes it: pipe:[INODE], a path, and others.
struct Target {
  explicit Target(const char* descriptor) {
    char path[64];
    TextWriter(path, sizeof(path)) << "/proc/self/fd/" << descriptor;
    const long length = system_call(SYS_readlink, path, text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = '\0';
  }
  char text[64];
};

int access_of(int descriptor) { return static_cast<int>(system_call(SYS_fcntl, descriptor, F_GETFL) & O_ACCMODE); }

// Whether the process can write to that pipe, too.
bool has_writing_end(const char* pipe) {
  return !for_each_entry("fd", [&](const char* name) {
    return std::strcmp(Target(name).text, pipe) != 0 ||
           access_of(static_cast<int>(std::strtol(name, nullptr, 10))) == O_RDONLY;
  });
}

// Whether there is something to be read that the process itself may have written: a pipe of its own, a pair of sockets.
bool has_own_message(int descriptor, const char* target) {
  const bool pipe = begins_with(target, "pipe:");
  if (!pipe && !begins_with(target, "socket:")) return false;
  if (pipe && access_of(descriptor) == O_WRONLY) return false;
  int bytes = 0;
  if (system_call(SYS_ioctl, descriptor, FIONREAD, &bytes) != 0 || bytes == 0) return false;
  if (pipe) return has_writing_end(target);
  struct ucred peer = {};
  socklen_t size = sizeof(peer);
  return system_call(SYS_getsockopt, descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.pid == static_cast<pid_t>(system_call(SYS_getpid));
}

// Whether a value waits in the kernel that is no small number: that of a timer (timer_create), or of a signal that was
// sent with one (sigqueue). Those of signals are not shown; signals below 32 are seldom sent so.
bool has_waiting_value() {
  char text[4096];
  constexpr char kValue[] = "\nsignal: ";
  read_small_file("/proc/self/timers", text, sizeof(text));
  for (const char* at = text; (at = std::strstr(at, kValue)) != nullptr;) {
    at += sizeof(kValue) - 1;
    const char* value = std::strchr(at, '/');
    if (value != nullptr && std::strtoull(value + 1, nullptr, 16) >= 1 << 16) return true;
  }
  if (read_own_file("status", text, sizeof(text)) == 0) return false;
  for (const char* field : {"\nSigPnd:", "\nShdPnd:"}) {
    const char* at = std::strstr(text, field);
    if (at != nullptr && std::strtoull(at + std::strlen(field), nullptr, 16) >> 31 != 0) return true;
  }
  return false;
}

}  // namespace

OtherThreads other_threads(const MemoryMap& map, DriverThreads* drivers) {
  if (!is_main_thread()) return OtherThreads::kProgram;
  look_at_restrictions();
  if (threads_seen() == 1) return OtherThreads::kNone;
  OtherThreads found = OtherThreads::kNone;
  const long self = system_call(SYS_gettid);
  const bool all = for_each_entry("../../task", [&](const char* name) {
    if (std::strtol(name, nullptr, 10) != self) found = look_at_thread(name, map, drivers);
    return found == OtherThreads::kNone;
  });
  return all || found != OtherThreads::kNone ? found : OtherThreads::kUnknown;
}

KernelHolds kernel_holds() {
  KernelHolds found = has_waiting_value() ? KernelHolds::kPointers : KernelHolds::kNothing;
  const bool all = for_each_entry("fd", [&](const char* name) {
    const Target target(name);
    for (const char* keeper :
         {"anon_inode:[eventpoll]", "anon_inode:[io_uring]", "anon_inode:[timerfd]", "/dev/mqueue"}) {
      if (begins_with(target.text, keeper)) found = KernelHolds::kPointers;
    }
    if (has_own_message(static_cast<int>(std::strtol(name, nullptr, 10)), target.text)) found = KernelHolds::kPointers;
    return found == KernelHolds::kNothing;
  });
  return all || found != KernelHolds::kNothing ? found : KernelHolds::kUnknown;
}

bool malloc_is_glibcs() {
  return check_first_definition("malloc", [](const ElfModule& module, const struct dl_phdr_info& info) {
    return is_libc(info.dlpi_name) && find_symbol(module, "gnu_get_libc_version") != 0;
  });
}

bool destructors_come_later() { return is_ours("__cxa_atexit") && is_ours("__cxa_thread_atexit_impl"); }

}  // namespace culprit
