// A signal handler that interrupts hooks forks, and the child calls CUDA: fork_in_handler fork|_Fork|clone
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/guest/programs/guest.h"

extern "C" pid_t _Fork(void) __attribute__((weak));

namespace {

char how;
int children;

pid_t make_child() {
  if (how == 'c') return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (how == '_' && _Fork != nullptr) return _Fork();
  return fork();
}

void fork_and_wait(int) {
  const pid_t pid = make_child();
  HOLDS(pid >= 0);
  if (pid == 0) {
    alarm(20);
    CHECKED(cuInit(0));
    guest::use_context();
    for (unsigned i = 0; i < 4; ++i) guest::pair_by_path(static_cast<unsigned>(children) * 4 + i, 12);
    _exit(9);
  }
  int status = 0;
  HOLDS(waitpid(pid, &status, 0) == pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 9) guest::broken(__FILE__, __LINE__, "a child's status", status);
  ++children;
}

}  // namespace

int main(int, char** argv) {
  how = argv[1][0];
  guest::start_cuda();
  struct sigaction action = {};
  action.sa_handler = fork_and_wait;
  action.sa_flags = SA_RESTART;
  HOLDS(sigaction(SIGALRM, &action, nullptr) == 0);
  uint64_t seed = 88172645463325252ULL;
  for (const guest::Storm storm; storm.goes_on() || *static_cast<volatile int*>(&children) < 50;) {
    const int before = *static_cast<volatile int*>(&children);  // the shot may come at once
    // A single shot: while a child runs no second one comes.
    const itimerval soon = {{0, 0}, {0, static_cast<suseconds_t>(200 + guest::next_random(&seed) % 800)}};
    HOLDS(setitimer(ITIMER_REAL, &soon, nullptr) == 0);
    while (*static_cast<volatile int*>(&children) == before) guest::pair_by_path(guest::next_random(&seed), 24);
  }
  const itimerval never = {};
  HOLDS(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  guest::figure("children", children);
  guest::say("all children ended as they should");
  return 0;
}
