#include "interpose/system/frozen_child.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "interpose/system/os.h"
#include "interpose/system/own_files.h"
#include "interpose/system/raw_calls.h"

namespace culprit {
namespace {

// The command reads the result within moments; the limit is for a copy whose command was killed, or in which a lock of
// another thread was taken when it was made.
constexpr int kCopyLivesSeconds = 60;
constexpr std::uint64_t kBytesPerMicrosecond = (std::uint64_t{1} << 30) / 25000;
constexpr int kEndTries = 200;
constexpr std::uint32_t kPauseMicroseconds = 100;

// close_range(2), Linux 5.9, missing in older headers.
constexpr long kCloseRange = 436;
constexpr std::uint64_t kMostDescriptors = 1 << 20;

void drop_handlers() {
  struct {
    void* handler;
    std::uint64_t flags;
    void* restorer;
    std::uint64_t mask;
  } none = {};
  for (int number = 1; number <= 64; ++number) system_call(SYS_rt_sigaction, number, &none, nullptr, 8);
}

// The program's peers must not wait for the copy's end to see that the program closed a pipe.
void close_all_files() {
  if (system_call(kCloseRange, 0, ~0U, 0) == 0) return;
  for (std::uint64_t fd = 0; fd < kMostDescriptors; ++fd) system_call(SYS_close, fd);
}

void begin_as_child() {
  system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  drop_handlers();
  const struct itimerval limit = {{0, 0}, {kCopyLivesSeconds, 0}};
  system_call(SYS_setitimer, ITIMER_REAL, &limit, nullptr);
  // Where cores go to a program, a limit of 1 byte is the one that prevents them.
  const struct rlimit no_core = {1, 1};
  system_call(SYS_setrlimit, RLIMIT_CORE, &no_core);
  const std::uint64_t clock_signal = std::uint64_t{1} << (SIGALRM - 1);
  system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, &clock_signal, nullptr, 8);
}

}  // namespace

std::uint64_t private_bytes_of_process() {
  char text[256];
  if (read_own_file("statm", text, sizeof(text)) == 0) return 0;
  std::uint64_t numbers[3] = {};
  const char* at = text;
  for (std::uint64_t& number : numbers) {
    while (*at == ' ') ++at;
    for (; *at >= '0' && *at <= '9'; ++at) number = number * 10 + static_cast<std::uint64_t>(*at - '0');
  }
  return (numbers[1] - (numbers[2] < numbers[1] ? numbers[2] : numbers[1])) * 4096;
}

std::uint64_t copying_microseconds(std::uint64_t private_bytes) { return private_bytes / kBytesPerMicrosecond; }

long make_frozen_child(FrozenFiles files) {
  const std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
  // Not seen by a debugger.
  const unsigned long flags = CLONE_FS | CLONE_UNTRACED | (files == FrozenFiles::kShared ? CLONE_FILES : 0);
  const long child = system_call(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr);
  if (child != 0) {
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, 8);
    return child;
  }
  begin_as_child();
  if (files == FrozenFiles::kOwn) close_all_files();
  return 0;
}

void wait_as_frozen_child() {
  for (;;) system_call(SYS_pause);
}

void end_as_frozen_child() {
  for (;;) system_call(SYS_exit_group, 0);
}

bool end_frozen_child(int child) {
  system_call(SYS_kill, child, SIGKILL);
  // It is no child that the program's own calls of wait() find.
  for (int i = 0; i < kEndTries; ++i) {
    if (system_call(SYS_wait4, child, nullptr, __WCLONE | WNOHANG, nullptr) != 0) return true;
    sleep_microseconds(kPauseMicroseconds);
  }
  return false;
}

}  // namespace culprit
