#include "report/screen/terminal_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace culprit::report {
namespace {

sigset_t signals_of_terminal() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH}) sigaddset(&set, number);
  return set;
}

}  // namespace

TerminalSignals::TerminalSignals() : before_() {
  const sigset_t set = signals_of_terminal();
  // A thread of this process that does not block SIGCHLD would take it from run_child().
  sigset_t blocked = set;
  sigaddset(&blocked, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  file_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

TerminalSignals::~TerminalSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::vector<int> TerminalSignals::taken() const {
  std::vector<int> numbers;
  signalfd_siginfo info;
  while (::read(file_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info)))
    numbers.push_back(static_cast<int>(info.ssi_signo));
  return numbers;
}

void TerminalSignals::let_all(bool let) const {
  sigset_t set = signals_of_terminal();
  sigaddset(&set, SIGCHLD);
  if (let) {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  } else {
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  }
}

void TerminalSignals::let(int number) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  ::raise(number);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

}  // namespace culprit::report
