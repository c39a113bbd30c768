#include "report/base/helper_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace culprit::report {

void HelperProcess::start(const std::function<void()>& work) {
  const pid_t parent = ::getpid();
  child_ = fork_child([&](int pipe) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    if (::getppid() != parent) return;
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    close_all_but(pipe);
    work();
  });
}

void HelperProcess::end() const {
  if (child_.pid > 0) ::kill(child_.pid, SIGKILL);
}

// One that hangs in a driver may take its time to end: the system collects it.
HelperProcess::~HelperProcess() {
  if (child_.pid <= 0) return;
  end();
  constexpr useconds_t kMost = 50000;
  useconds_t pause = 50;
  for (useconds_t waited = 0; waited < kMost && ::waitpid(child_.pid, nullptr, WNOHANG) == 0; waited += pause) {
    ::usleep(pause);
    pause = std::min<useconds_t>(2 * pause, 1000);
  }
}

}  // namespace culprit::report
