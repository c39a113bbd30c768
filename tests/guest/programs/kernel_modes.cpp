// The kernel restricts this process in a way that few programs ask for: kernel_modes MODE [late]
//   late: after the first CUDA calls, in a thread that the library knows
#include <asm/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/guest/programs/guest.h"

namespace {

bool checks_alignment;
bool counts_down;

// The flags are set around CUDA calls only: libc itself reads unaligned words, and copies upwards.
void set_flags(bool on) {
  if (checks_alignment && on) asm volatile("pushfq; orl $0x40000, (%%rsp); popfq" ::: "memory", "cc");
  if (checks_alignment && !on) asm volatile("pushfq; andl $~0x40000, (%%rsp); popfq" ::: "memory", "cc");
  if (counts_down && on) asm volatile("std" ::: "memory", "cc");
  if (counts_down && !on) asm volatile("cld" ::: "memory", "cc");
}

GUEST_FUNCTION void work(uint64_t seed) {
  // New stacks and known ones, and memory that changes the live sum of the device.
  for (int round = 0; round < 3; ++round) {
    for (uint64_t path = 0; path < 200; ++path) {
      set_flags(true);
      guest::pair_by_path(path * 7 + seed, 10);
      set_flags(false);
    }
  }
  set_flags(true);
  guest::release(guest::allocate(64 << 20));
  CUdeviceptr none = 0;
  const CUresult refused = cuMemAlloc(&none, 0);
  set_flags(false);
  HOLDS(refused != CUDA_SUCCESS);
  try {
    guest::allocate(4096);
    throw 1;
  } catch (int) {
  }
}

void* thread_main(void*) {
  guest::use_context();
  work(5000);
  return nullptr;
}

// False: this kernel or processor does not have the mode.
bool enter(const char* mode) {
  const rlimit none = {0, 0};
  if (strcmp(mode, "usual") == 0) return true;
  if (strcmp(mode, "no-counter") == 0) return prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0;
  if (strcmp(mode, "no-cpuid") == 0) return syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0;
  if (strcmp(mode, "alignment") == 0) return checks_alignment = true;
  if (strcmp(mode, "direction") == 0) return counts_down = true;
  if (strcmp(mode, "not-dumpable") == 0) return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
  if (strcmp(mode, "no-new-privileges") == 0) return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (strcmp(mode, "no-writable-code") == 0) return prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0) == 0;
  if (strcmp(mode, "late-timers") == 0) return prctl(PR_SET_TIMERSLACK, 1000000000UL, 0, 0, 0) == 0;
  if (strcmp(mode, "no-files") == 0) return setrlimit(RLIMIT_NOFILE, &none) == 0;
  if (strcmp(mode, "no-huge-pages") == 0) return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;
  if (strcmp(mode, "locked") == 0) {
    const rlimit little = {8 << 20, 8 << 20};
    return setrlimit(RLIMIT_MEMLOCK, &little) == 0 && mlockall(MCL_FUTURE) == 0;
  }
  if (strcmp(mode, "idle") == 0) {
    const sched_param lowest = {0};
    return sched_setscheduler(0, SCHED_IDLE, &lowest) == 0;
  }
  if (strcmp(mode, "signals-blocked") == 0) {
    sigset_t all;
    sigfillset(&all);
    return sigprocmask(SIG_BLOCK, &all, nullptr) == 0;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const bool late = argc > 2;
  try {  // loads the libraries that a throw needs
    throw 1;
  } catch (int) {
  }
  if (late) {
    guest::start_cuda();
    work(0);
  }
  if (!enter(argv[1])) {
    guest::say("not here");
    return 0;
  }
  if (!late) guest::start_cuda();
  work(100);
  pthread_t thread;
  CHECKED(pthread_create(&thread, nullptr, thread_main, nullptr));
  CHECKED(pthread_join(thread, nullptr));
  guest::say("%s", argv[1]);
  return 0;
}
