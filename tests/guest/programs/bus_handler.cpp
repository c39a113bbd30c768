// The program asks for its action for SIGBUS, and does with that signal whatever programs do: the library has a handler
// for it (interpose/dump/truncation_guard.h): bus_handler ask|ignored|once|restored|fork|spawn|sent
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/guest/programs/guest.h"

namespace {

volatile sig_atomic_t handled;
void on_signal(int) { handled = handled + 1; }

const char* action() {
  struct sigaction present;
  HOLDS(sigaction(SIGBUS, nullptr, &present) == 0);
  if (present.sa_handler == SIG_DFL) return "default";
  if (present.sa_handler == SIG_IGN) return "ignored";
  return present.sa_handler == on_signal ? "the program's" : "another";
}

void report_child(pid_t child) {
  int status = 0;
  HOLDS(waitpid(child, &status, 0) == child);
  guest::say("child: exit %d, signal %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

}  // namespace

int main(int, char** argv) {
  const auto is = [&](const char* name) { return strcmp(argv[1], name) == 0; };
  if (is("child")) return strcmp(action(), "default") == 0 ? 7 : 8;
  if (is("ignored")) signal(SIGBUS, SIG_IGN);
  guest::start_cuda();
  guest::pair();
  if (is("ask")) guest::figure("default", strcmp(action(), "default") == 0 ? 1 : 0);
  if (is("ignored")) guest::say("%s, %d", action(), raise(SIGBUS));
  if (is("once") || is("restored")) {
    struct sigaction own = {}, former = {};
    own.sa_handler = on_signal;
    own.sa_flags = is("once") ? SA_RESETHAND : 0;
    HOLDS(sigaction(SIGBUS, &own, &former) == 0);
    guest::say("%s", action());
    raise(SIGBUS);
    guest::pair();
    if (is("restored")) HOLDS(sigaction(SIGBUS, &former, nullptr) == 0);
    guest::say("%d", handled);
    raise(SIGBUS);  // as if it had never been handled
    return 5;
  }
  if (is("fork")) {
    const pid_t child = fork();
    if (child == 0) {
      guest::pair();
      raise(SIGBUS);
      _exit(5);
    }
    report_child(child);
  }
  if (is("spawn")) {
    char child_mode[] = "child";
    char* const arguments[] = {argv[0], child_mode, nullptr};
    pid_t child = 0;
    HOLDS(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0);
    report_child(child);
  }
  if (is("sent")) {
    syscall(SYS_kill, getpid(), SIGBUS);
    return 5;
  }
  guest::say("%s", argv[1]);
  return 0;
}
