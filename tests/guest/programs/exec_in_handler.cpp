// A handler that interrupts hooks replaces the program by execve(); the new program ends: exec_in_handler [fork]
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/guest/programs/signals.h"

extern char** environ;

namespace {

void replace(int) {
  char* const arguments[] = {const_cast<char*>("sh"), const_cast<char*>("-c"), const_cast<char*>("exit 9"), nullptr};
  execve("/bin/sh", arguments, environ);
  _exit(3);
}

}  // namespace

int main() {
  for (int i = 0; i < 40; ++i) {
    const pid_t pid = fork();
    HOLDS(pid >= 0);
    if (pid == 0) {
      alarm(20);
      guest::start_cuda();
      guest::on_signal(SIGVTALRM, replace);
      const itimerval soon = {{0, 0}, {0, 500 + 97 * i}};
      HOLDS(setitimer(ITIMER_VIRTUAL, &soon, nullptr) == 0);
      for (uint64_t path = 0;; ++path) guest::pair_by_path(path, 16);
    }
    int status = 0;
    HOLDS(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 9) guest::broken(__FILE__, __LINE__, "a child's status", status);
  }
  guest::say("all children were replaced");
  return 0;
}
