#include "interpose/causes/kernel_words.h"

#include <fcntl.h>
#include <mqueue.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "interpose/base/module_name.h"
#include "interpose/base/text_writer.h"
#include "interpose/system/own_files.h"
#include "interpose/system/own_folders.h"
#include "interpose/system/raw_calls.h"

namespace culprit {
namespace {

// A smaller value is no pointer: no address space of a program begins below (vm.mmap_min_addr).
constexpr std::uint64_t kLeastPointer = 1 << 16;

constexpr const char* kKeepers[] = {"anon_inode:[eventpoll]", "anon_inode:[io_uring]", "anon_inode:[timerfd]",
                                    "anon_inode:bpf-map"};

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
    if (value != nullptr && std::strtoull(value + 1, nullptr, 16) >= kLeastPointer) return true;
  }
  if (read_own_file("status", text, sizeof(text)) == 0) return false;
  for (const char* field : {"\nSigPnd:", "\nShdPnd:"}) {
    const char* at = std::strstr(text, field);
    if (at != nullptr && std::strtoull(at + std::strlen(field), nullptr, 16) >> 31 != 0) return true;
  }
  return false;
}

// The value that an eventfd has: a program may pass a pointer so.
bool has_value(const char* descriptor, const char* target) {
  if (!begins_with(target, "anon_inode:[eventfd]")) return false;
  char name[64], text[512];
  TextWriter(name, sizeof(name)) << "fdinfo/" << descriptor;
  read_own_file(name, text, sizeof(text));
  constexpr char kCount[] = "eventfd-count:";
  const char* count = std::strstr(text, kCount);
  return count == nullptr || std::strtoull(count + sizeof(kCount) - 1, nullptr, 16) >= kLeastPointer;
}

// An empty one may have the value of mq_notify(), which is not shown.
bool is_posix_queue(int descriptor) {
  struct mq_attr state = {};
  return system_call(SYS_mq_getsetattr, descriptor, nullptr, &state) == 0;
}

// Memory that has no name, and a mapping only where the program made one.
bool has_bytes(int descriptor, const char* target) {
  struct stat state = {};
  return begins_with(target, "/memfd:") && (system_call(SYS_fstat, descriptor, &state) != 0 || state.st_blocks != 0);
}

// Message queues and shared memory of System V have no descriptor. msgctl(2) and shmctl(2) return the highest index.
bool has_message_of_system_v(pid_t self) {
  struct msginfo info = {};
  const long last = system_call(SYS_msgctl, 0, MSG_INFO, &info);
  for (long i = 0; i <= last; ++i) {
    struct msqid_ds queue = {};
    if (system_call(SYS_msgctl, i, MSG_STAT, &queue) >= 0 && queue.msg_qnum != 0 && queue.msg_lspid == self)
      return true;
  }
  return false;
}

bool has_detached_memory(pid_t self) {
  struct shm_info info = {};
  const long last = system_call(SYS_shmctl, 0, SHM_INFO, &info);
  for (long i = 0; i <= last; ++i) {
    struct shmid_ds segment = {};
    if (system_call(SYS_shmctl, i, SHM_STAT, &segment) >= 0 && segment.shm_nattch == 0 && segment.shm_lpid == self)
      return true;
  }
  return false;
}

bool keeps_words(const char* name) {
  const Target target(name);
  for (const char* keeper : kKeepers) {
    if (begins_with(target.text, keeper)) return true;
  }
  const int descriptor = static_cast<int>(std::strtol(name, nullptr, 10));
  return has_own_message(descriptor, target.text) || has_value(name, target.text) ||
         has_bytes(descriptor, target.text) || is_posix_queue(descriptor);
}

}  // namespace

KernelHolds kernel_holds() {
  if (calls_restricted_now()) return KernelHolds::kUnknown;
  const auto self = static_cast<pid_t>(system_call(SYS_getpid));
  if (has_waiting_value() || has_message_of_system_v(self) || has_detached_memory(self)) return KernelHolds::kPointers;
  bool found = false;
  const bool all = for_each_entry("fd", [&](const char* name) {
    found = keeps_words(name);
    return !found;
  });
  if (found) return KernelHolds::kPointers;
  return all ? KernelHolds::kNothing : KernelHolds::kUnknown;
}

}  // namespace culprit
