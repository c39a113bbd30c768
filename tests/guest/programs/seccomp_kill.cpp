// A filter kills the process at each system call that is not in its list: seccomp_kill after|before|exec [say]
//   the filter is installed after the first CUDA call, before it, or before the program starts
//   say: prints the number of the system call instead of ending by SIGSYS (to find the calls that a change needs)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "tests/guest/programs/guest.h"

namespace {

// System calls of this program, its threads and libc's start and end of them.
constexpr int kOwn[] = {SYS_write,           SYS_exit_group,    SYS_exit,           SYS_rt_sigreturn,
                        SYS_futex,           SYS_brk,           SYS_mmap,           SYS_munmap,
                        SYS_mprotect,        SYS_madvise,       SYS_clone,          SYS_clone3,
                        SYS_set_robust_list, SYS_rseq,          SYS_rt_sigprocmask, SYS_gettid,
                        SYS_sched_yield,     SYS_clock_gettime, SYS_rt_sigaction};
// Additional system calls of the library while it records. README.md promises that there are no others.
constexpr int kRecording[] = {SYS_getpid,       SYS_gettid, SYS_fallocate, SYS_fstat, SYS_newfstatat,
                              SYS_mincore,      SYS_ppoll,  SYS_madvise,   SYS_write, SYS_rt_sigtimedwait,
                              SYS_rt_sigaction, SYS_openat, SYS_close,     SYS_read,  SYS_pread64,
                              SYS_fcntl};
// Additional system calls of its start: to make the dump's file, and to read facts about the process.
constexpr int kBeginning[] = {SYS_openat,    SYS_close,     SYS_read,     SYS_pread64, SYS_lseek,
                              SYS_fcntl,     SYS_ftruncate, SYS_readlink, SYS_uname,   SYS_prlimit64,
                              SYS_getrandom, SYS_prctl,     SYS_statx,    SYS_access};
// System calls of the loader to start a program.
constexpr int kLoading[] = {SYS_execve, SYS_arch_prctl, SYS_set_tid_address, SYS_getuid, SYS_sysinfo, SYS_ioctl};

sock_filter code[160];
unsigned short length;

void add(sock_filter step) { code[length++] = step; }

template <size_t N>
void allow(const int (&numbers)[N]) {
  for (const int number : numbers) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
}

void name_call(int, siginfo_t* info, void*) {
  char number[24];
  guest::write_text(2, "system call ");
  guest::write_text(2, guest::number_text(info->si_syscall, number + sizeof number));
  guest::write_text(2, "\n");
  syscall(SYS_exit_group, 4);
}

void install(bool beginning, bool loading, bool say) {
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  allow(kOwn);
  allow(kRecording);
  if (beginning) allow(kBeginning);
  if (loading) allow(kLoading);
  add(BPF_STMT(BPF_RET | BPF_K, say ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS));
  if (say) {
    struct sigaction action = {};
    action.sa_sigaction = name_call;
    action.sa_flags = SA_SIGINFO;
    HOLDS(sigaction(SIGSYS, &action, nullptr) == 0);
  }
  const sock_fprog program = {length, code};
  HOLDS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  HOLDS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

void* thread_main(void*) {
  guest::use_context();
  for (uint64_t i = 0; i < 100; ++i) guest::pair_by_path(i + 90000, 20);
  return nullptr;
}

void use_cuda() {
  uint64_t seed = 88172645463325252ULL;
  // More than the initial size of the dump.
  for (int i = 0; i < 20000; ++i) guest::pair_by_path(guest::next_random(&seed), 20);
  try {
    throw 1;
  } catch (int) {
  }
  pthread_t thread;
  CHECKED(pthread_create(&thread, nullptr, thread_main, nullptr));
  CHECKED(pthread_join(thread, nullptr));
  guest::allocate(11001);
}

}  // namespace

int main(int argc, char** argv) {
  const char when = argv[1][0];
  const bool say = argc > 2;
  try {  // loads the libraries that a throw needs
    throw 1;
  } catch (int) {
  }
  if (when == 'e' && strcmp(argv[1], "executed") != 0) {
    install(true, true, say);
    char executed[] = "executed";
    char* const arguments[] = {argv[0], executed, nullptr};
    execve("/proc/self/exe", arguments, environ);
    return 3;
  }
  if (when == 'b') install(true, false, say);
  guest::start_cuda();
  if (when == 'a') install(false, false, say);
  use_cuda();
  guest::say("the filter let everything pass");
  return 0;
}
