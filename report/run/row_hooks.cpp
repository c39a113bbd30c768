#include "report/run/row_hooks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "report/base/log.h"
#include "report/base/words.h"
#include "report/run/child_process.h"

namespace culprit::report {

void RowHooks::start(const std::vector<std::pair<std::string, std::string>>& environment) {
  if (command_.empty()) return;
  ForkedChild child = start_child({"/bin/sh", "-c", command_}, environment, [] {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    // `culprit watch` blocks the signals that it passes on.
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  });
  if (child.error != 0) log::warning("--exec " + short_word(command_) + ": " + std::strerror(child.error));
  if (child.pid > 0) running_.push_back(std::move(child));
}

void RowHooks::collect(bool wait) {
  std::vector<ForkedChild> left;
  for (ForkedChild& child : running_) {
    int status = 0;
    pid_t ended = -1;
    do {
      ended = ::waitpid(child.pid, &status, wait ? 0 : WNOHANG);
    } while (ended < 0 && errno == EINTR);
    if (ended == 0) {
      left.push_back(std::move(child));
      continue;
    }
    if (ended != child.pid || child.error != 0) continue;
    const ChildResult result = result_of(child, status);
    if (result.signalled) {
      log::warning("--exec " + short_word(command_) + ": ended by " + signal_text(result.code));
    } else if (result.code != 0) {
      log::warning("--exec " + short_word(command_) + ": ended with exit code " + std::to_string(result.code));
    }
  }
  running_ = std::move(left);
}

}  // namespace culprit::report
