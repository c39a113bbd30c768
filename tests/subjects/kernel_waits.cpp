// kernel_waits PROGRAM ARGUMENT...: runs the program and names its system calls that wait for all processors (RCU),
// some milliseconds each: the registration for membarrier(2), and a larger table of descriptors, in a process that has
// several threads at that moment. One line for each such call, one with the descriptor of the dump that each process
// still has when it ends, and one for each call of those two sorts that need not wait:
//   waits membarrier | waits fcntl | kept NUMBER | quick membarrier | quick fcntl
#include <dirent.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/subjects/check.h"

namespace {

// The layout that the kernel gives for PTRACE_GET_SYSCALL_INFO; glibc's and the kernel's headers name it differently.
struct SystemCall {
  unsigned char op;  // 1: entry
  unsigned char padding[3];
  unsigned arch;
  unsigned long long instruction, stack, number, arguments[6];
};
constexpr int kGetSystemCall = 0x420e;

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

long status_of(pid_t pid, const char* field) {
  FILE* file = std::fopen((folder_of(pid) + "/status").c_str(), "r");
  if (file == nullptr) return 0;
  char line[256];
  long value = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::strncmp(line, field, std::strlen(field)) == 0) value = std::atol(line + std::strlen(field));
  }
  std::fclose(file);
  return value;
}

void print(const char* word, bool waits) { std::printf("%s %s\n", waits ? "waits" : "quick", word); }

void print_kept(pid_t pid) {
  const std::string name = folder_of(pid) + "/fd";
  DIR* folder = opendir(name.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    char target[512];
    const ssize_t length = readlink((name + "/" + entry->d_name).c_str(), target, sizeof(target));
    if (length > 5 && std::memcmp(target + length - 5, ".dump", 5) == 0) std::printf("kept %s\n", entry->d_name);
  }
  closedir(folder);
}

void look_at(pid_t pid, const SystemCall& call) {
  const bool threads = status_of(pid, "Threads:") > 1;
  if (call.number == SYS_membarrier && call.arguments[0] == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    print("membarrier", threads);
  if (call.number == SYS_fcntl && (call.arguments[1] == F_DUPFD_CLOEXEC || call.arguments[1] == F_DUPFD))
    print("fcntl", threads && static_cast<long>(call.arguments[2]) >= status_of(pid, "FDSize:"));
  if (call.number == SYS_exit_group) print_kept(pid);
}

}  // namespace

int main(int, char** arguments) {
  const pid_t first = fork();
  if (first == 0) {
    CHECKED(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
    execv(arguments[1], arguments + 1);
    return 127;
  }
  int status = 0, result = 4;
  if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status)) return 4;
  CHECKED(ptrace(
      PTRACE_SETOPTIONS, first, nullptr,
      PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL));
  ptrace(PTRACE_SYSCALL, first, nullptr, nullptr);
  for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) {
      if (pid == first) result = WIFEXITED(status) ? WEXITSTATUS(status) : 5;
      continue;
    }
    int signal = WSTOPSIG(status);
    SystemCall call = {};
    if (signal == (SIGTRAP | 0x80)) {
      ptrace(static_cast<__ptrace_request>(kGetSystemCall), pid, sizeof(call), &call);
      if (call.op == 1) look_at(pid, call);
      signal = 0;
    } else if (signal == SIGTRAP || signal == SIGSTOP) {
      signal = 0;  // a new thread or process
    }
    ptrace(PTRACE_SYSCALL, pid, nullptr, signal);
  }
  return result;
}
