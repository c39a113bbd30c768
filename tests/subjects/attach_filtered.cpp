// A program that culprit attaches to, under a seccomp filter that ends it for each call that it does not make itself:
// attach_filtered KIND NAME...
//   single  one thread, which sleeps in pieces of 100 ms and checks that none is cut short
//   cuda    the main thread leaks 20001 bytes for each byte of standard input
//   strict  the main thread is in seccomp's strict mode, and sleeps by reading standard input
//   uneven  a second thread alone has a filter
// Each NAME is a call that is allowed too. Prints "ready", and "fine" at the end of standard input.
#include <cuda_runtime_api.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

// Of this program and of the simulated driver.
constexpr int kOwn[] = {SYS_read,  SYS_write,      SYS_exit_group,     SYS_exit,   SYS_poll, SYS_clock_nanosleep,
                        SYS_futex, SYS_mmap,       SYS_clock_gettime,  SYS_munmap, SYS_brk,  SYS_rt_sigprocmask,
                        SYS_fstat, SYS_newfstatat, SYS_restart_syscall};

void install_filter(char** names, bool restart) {
  std::vector<long> allowed(std::begin(kOwn), std::end(kOwn) - (restart ? 0 : 1));
  for (; *names != nullptr; ++names) allowed.push_back(strtol(*names, nullptr, 10));
  std::vector<sock_filter> code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : allowed) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(4);
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

SUBJECT_FUNCTION void leak_after() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 20001));
}

void say(const char* text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(5);
}

}  // namespace

int main(int, char** arguments) {
  const char* kind = arguments[1];
  if (strcmp(kind, "strict") == 0) {
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    say("ready\n");  // one of the four calls that this mode allows
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    say("fine\n");
    syscall(SYS_exit, 0);
  }
  if (strcmp(kind, "cuda") == 0) CHECKED(cudaFree(nullptr));
  if (strcmp(kind, "uneven") == 0) {
    std::thread([=] {
      install_filter(arguments + 2, true);
      for (;;) usleep(1000);
    }).detach();
    usleep(50000);
  } else {
    install_filter(arguments + 2, strcmp(kind, "single") != 0);
  }
  say("ready\n");
  if (strcmp(kind, "single") == 0) {
    for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) <= 0;) {
      const double begin = now();
      const timespec time = {0, 100000000};
      if (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr) != 0 || now() - begin < 0.1) _exit(3);
    }
  } else {
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) leak_after();
  }
  say("fine\n");
  _exit(0);
}
