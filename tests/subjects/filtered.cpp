// A seccomp filter kills the program at each system call that is not allowed: filtered before|after COUNT NAME...
// The filter is installed before or after the first CUDA call; then COUNT calls are made. Each NAME is a system call
// that is allowed in addition to those that this program, libc and the simulated driver need.
#include <cuda_runtime_api.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/leak_at_depth.h"

#define CALL(name) \
  { #name, SYS_##name }

struct Call {
  const char* name;
  int number;
};

// Every name that system_calls.txt may hold.
static const Call kCalls[] = {CALL(mmap),
                              CALL(munmap),
                              CALL(madvise),
                              CALL(openat),
                              CALL(close),
                              CALL(read),
                              CALL(pread64),
                              CALL(fstat),
                              CALL(newfstatat),
                              CALL(fcntl),
                              CALL(fallocate),
                              CALL(write),
                              CALL(ppoll),
                              CALL(rt_sigprocmask),
                              CALL(rt_sigtimedwait),
                              CALL(rt_sigaction),
                              CALL(getpid),
                              CALL(gettid),
                              CALL(clock_gettime),
                              CALL(futex),
                              CALL(uname),
                              CALL(readlink),
                              CALL(getcwd),
                              CALL(prlimit64),
                              CALL(membarrier),
                              CALL(process_vm_readv),
                              CALL(mremap),
                              CALL(truncate),
                              CALL(mkdirat),
                              CALL(mprotect),
                              CALL(munlock),
                              CALL(sched_yield),
                              CALL(tgkill),
                              CALL(getppid),
                              CALL(mincore),
                              CALL(prctl)};

// System calls of libc and the simulated driver: threads, malloc, loading libraries, the end.
static const int kOthers[] = {
    SYS_brk,        SYS_mprotect,     SYS_clone3,          SYS_clone,           SYS_rseq,           SYS_exit,
    SYS_exit_group, SYS_lseek,        SYS_getrandom,       SYS_set_robust_list, SYS_rt_sigreturn,   SYS_mmap,
    SYS_munmap,     SYS_futex,        SYS_write,           SYS_openat,          SYS_close,          SYS_read,
    SYS_pread64,    SYS_fstat,        SYS_newfstatat,      SYS_rt_sigprocmask,  SYS_madvise,        SYS_ioctl,
    SYS_getdents64, SYS_rt_sigaction, SYS_set_tid_address, SYS_prlimit64,       SYS_clock_nanosleep};

static void install_filter(int count, char** names) {
  std::vector<int> allowed(kOthers, kOthers + sizeof kOthers / sizeof kOthers[0]);
  for (int i = 0; i < count; ++i) {
    bool known = false;
    for (const Call& call : kCalls) {
      if (strcmp(call.name, names[i]) != 0) continue;
      allowed.push_back(call.number);
      known = true;
    }
    if (!known) {
      fprintf(stderr, "unknown call %s\n", names[i]);
      exit(3);
    }
  }
  std::vector<sock_filter> code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (int number : allowed) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(4);
}

int main(int argc, char** argv) {
  const int count = atoi(argv[2]);
  if (strcmp(argv[1], "before") == 0) install_filter(argc - 3, argv + 3);
  leak(1, 0);
  if (strcmp(argv[1], "after") == 0) {
    install_filter(argc - 3, argv + 3);
    usleep(100000);  // longer than the recorder's period of 10 ms
  }
  leak(count, 3);
  std::thread other([count] { leak(count, 5); });
  other.join();
  puts("done");
  return 0;
}
