#include "report/run/child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <optional>

#include "report/base/exit_codes.h"
#include "report/base/inherited_signals.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

// The signals that are passed on to the child. SIGTSTP and the like are left out: job control stops and continues the
// whole process group, including culprit.
constexpr int kPassedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};

// Like sigwaitinfo(); -1 when `end` comes first.
int wait_until(const std::chrono::steady_clock::time_point& end, const sigset_t& watched, siginfo_t* info) {
  const auto left = std::max(end - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec time = {static_cast<std::time_t>(seconds.count()),
                         static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
  return ::sigtimedwait(&watched, info, &time);
}

int wait_and_pass_signals(pid_t child, const sigset_t& watched, const Meanwhile& meanwhile) {
  int status = 0;
  auto next = std::chrono::steady_clock::now();
  while (true) {
    siginfo_t info = {};
    if (meanwhile && std::chrono::steady_clock::now() >= next) next = std::chrono::steady_clock::now() + meanwhile();
    const int number = meanwhile ? wait_until(next, watched, &info) : ::sigwaitinfo(&watched, &info);
    if (number == SIGCHLD) {
      const pid_t ended = ::waitpid(child, &status, WNOHANG);
      if (ended == child) return status;
    } else if (number > 0 && info.si_code <= 0) {
      // Only signals from processes are passed on. si_code > 0 means that the kernel sent it, as the terminal does, to
      // the whole process group, so the child has it already.
      ::kill(child, number);
    }
  }
}

// Empty too when memory is short: the child runs, and only its exit code counts from then on.
std::optional<ProcessStat> stat_of(pid_t child) noexcept {
  try {
    return ProcessFolder("/proc", static_cast<std::uint64_t>(child)).stat();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

ForkedChild start_child(const std::vector<std::string>& command,
                        const std::vector<std::pair<std::string, std::string>>& environment,
                        const std::function<void()>& prepare) {
  std::vector<const char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(word.c_str());
  arguments.push_back(nullptr);
  ForkedChild child = fork_child([&](int pipe) {
    restore_inherited_signals();
    prepare();
    // A program without one of the variables would not be recorded.
    bool complete = true;
    for (const auto& [name, value] : environment) complete = complete && ::setenv(name.c_str(), value.c_str(), 1) == 0;
    if (complete) ::execvp(arguments[0], const_cast<char* const*>(arguments.data()));
    const int error = errno;
    ::_exit(write_whole(pipe, &error, sizeof(error)) ? 127 : 126);
  });
  int error = 0;
  if (child.pid > 0 && read_whole(child.message.get(), &error, sizeof(error))) child.error = error;
  child.message.close();
  return child;
}

ChildResult result_of(const ForkedChild& child, int status) {
  ChildResult result;
  result.start_errno = child.error;
  result.pid = child.pid;
  result.signalled = WIFSIGNALED(status);
  result.code = result.signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

ChildResult run_child(const std::vector<std::string>& command,
                      const std::vector<std::pair<std::string, std::string>>& environment, const Meanwhile& meanwhile,
                      const std::function<void(pid_t)>& started) {
  // With an inherited SIG_IGN for SIGCHLD the exit status would be lost.
  struct sigaction child_action = {};
  struct sigaction default_action = {};
  default_action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &default_action, &child_action);
  sigset_t watched;
  sigset_t before;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (int number : kPassedOn) sigaddset(&watched, number);
  ::sigprocmask(SIG_BLOCK, &watched, &before);

  const ForkedChild child = start_child(command, environment, [&] {
    ::sigaction(SIGCHLD, &child_action, nullptr);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
  });
  // Until it is waited for, no other process has its number.
  const std::optional<ProcessStat> stat = child.pid > 0 ? stat_of(child.pid) : std::nullopt;
  if (started && child.pid > 0 && child.error == 0) started(child.pid);
  const int status = child.pid > 0 ? wait_and_pass_signals(child.pid, watched, meanwhile) : 0;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ChildResult result = result_of(child, status);
  if (stat) result.start_ticks = stat->start_ticks;
  return result;
}

int die_like_child(int signal_number) {
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(signal_number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal_number);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal_number);
  return kExitSignalled + signal_number;
}

}  // namespace culprit::report
