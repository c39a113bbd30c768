// A program that culprit attaches to while signals are sent to its main thread, each of which must arrive once, in
// order and with what its sender said about it.
//
//   sent      another thread sends SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS and three of a queued signal, as
//             profilers and garbage collectors do, and waits until all have arrived
//   broker    SIGSYS has a handler that makes the calls which a seccomp filter traps (openat, of a sandbox's broker)
//
// Prints "ready", and at the end of standard input loads a library and prints "fine". A signal that is lost, comes
// twice or out of order, or a library that does not load in 20 s: exit code 3.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace {

constexpr int kOfInstructions[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
constexpr int kQueued = 3;
constexpr int kAtOnce = 6 + kQueued;

std::atomic<long> arrived{0};
std::atomic<int> rounds{0};
std::atomic<bool> stop{false};

[[noreturn]] void wrong(const char* what, long number) {
  char text[200];
  const int size = snprintf(text, sizeof(text), "wrong: %s %ld in round %d\n", what, number, rounds.load());
  if (write(STDERR_FILENO, text, static_cast<size_t>(size)) < 0) _exit(4);
  _exit(3);
}

void on_signal(int number, siginfo_t* info, void*) {
  static int queued = 0;
  if (info->si_signo != number) wrong("si_signo", info->si_signo);
  if (info->si_code != SI_QUEUE) wrong("si_code", info->si_code);
  if (info->si_pid != getpid() || info->si_uid != getuid()) wrong("the sender", info->si_pid);
  const int value = info->si_value.sival_int;
  if (value / 100 != rounds.load()) wrong("the value", value);
  if (number == SIGRTMIN && value % 100 != queued) wrong("the order", value);
  if (number == SIGRTMIN) queued = (queued + 1) % kQueued;
  ++arrived;
}

void send_one(pid_t to, int number, int value) {
  siginfo_t info = {};
  info.si_signo = number;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = value;
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), to, number, &info) != 0) wrong("cannot send", errno);
}

void send_all(pid_t to) {
  while (!stop.load()) {
    const int value = rounds.load() * 100;
    for (const int number : kOfInstructions) send_one(to, number, value);
    for (int i = 0; i < kQueued; ++i) send_one(to, SIGRTMIN, value + i);
    for (int waited = 0; arrived.load() < kAtOnce; ++waited) {
      if (waited == 400000) wrong("arrived", arrived.load());
      usleep(50);
    }
    usleep(100);
    if (arrived.load() != kAtOnce) wrong("arrived", arrived.load());
    arrived = 0;
    ++rounds;
  }
}

// The mark of a call that the filter allows.
constexpr unsigned kOfBroker = 0x4711;
constexpr int kSeccomp = 1;  // SYS_SECCOMP of linux/siginfo.h

void on_trapped(int, siginfo_t* info, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (info->si_code != kSeccomp || info->si_syscall != SYS_openat) wrong("a trap of call", info->si_syscall);
  const long result =
      syscall(SYS_openat, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10], 0, kOfBroker);
  registers[REG_RAX] = result < 0 ? -errno : result;
  ++arrived;
}

void trap_openat() {
  sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_openat},
                        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args[5])},
                        {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, kOfBroker},
                        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP},
                        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog filter = {6, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    wrong("no filter", errno);
}

}  // namespace

int main(int, char** arguments) {
  const bool broker = strcmp(arguments[1], "broker") == 0;
  struct sigaction action = {};
  action.sa_sigaction = broker ? on_trapped : on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int number : kOfInstructions) sigaction(number, &action, nullptr);
  sigaction(SIGRTMIN, &action, nullptr);
  if (broker) trap_openat();
  const pid_t main_thread = getpid();
  std::thread sender;
  if (!broker) sender = std::thread([=] { send_all(main_thread); });
  puts("ready");
  fflush(stdout);
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) <= 0;) {
    for (volatile int i = 0; i < 100000;) i = i + 1;
  }
  stop = true;
  if (sender.joinable()) sender.join();
  if (broker && arrived.load() != 0) wrong("calls of another program were trapped:", arrived.load());
  alarm(20);
  if (dlopen("libm.so.6", RTLD_NOW) == nullptr) wrong("no library", 0);
  puts("fine");
  return 0;
}
