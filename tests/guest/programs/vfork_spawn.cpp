// Between CUDA calls the program starts children that share its memory: vfork and exec, vfork and _exit, posix_spawn,
// clone with CLONE_VM. With the argument "cuda" the child of clone calls CUDA.
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tests/guest/programs/guest.h"

extern char** environ;

namespace {

void wait_for(pid_t pid, int code) {
  int status = 0;
  HOLDS(waitpid(pid, &status, 0) == pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != code) guest::broken(__FILE__, __LINE__, "a child's status", status);
}

int call_cuda(void*) {
  guest::pair();
  return 9;
}

}  // namespace

int main(int argc, char** argv) {
  const bool cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  guest::start_cuda();
  static char stack[256 * 1024];
  char* const arguments[] = {const_cast<char*>("true"), nullptr};
  for (int i = 0; i < 40; ++i) {
    guest::pair_by_path(static_cast<uint64_t>(i), 8);
    pid_t pid = vfork();
    HOLDS(pid >= 0);
    if (pid == 0) {
      execve("/bin/true", arguments, environ);
      _exit(127);
    }
    wait_for(pid, 0);
    pid = vfork();
    HOLDS(pid >= 0);
    if (pid == 0) _exit(9);
    wait_for(pid, 9);
    CHECKED(posix_spawn(&pid, "/bin/true", nullptr, nullptr, arguments, environ));
    wait_for(pid, 0);
    if (cuda) {
      pid = clone(call_cuda, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
      HOLDS(pid >= 0);
      wait_for(pid, 9);
    }
    guest::pair_by_path(static_cast<uint64_t>(i) + 40, 8);
  }
  guest::allocate(11001);
  guest::say("all children ended as they should");
  return 0;
}
