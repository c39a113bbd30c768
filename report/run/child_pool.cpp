#include "report/run/child_pool.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace culprit::report {

struct ChildPool::Signals {
  sigset_t watched;
  sigset_t before;
  struct sigaction child_before;
};

namespace {

constexpr int kEnding[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

// In the child: enters a process group of its own, with empty input and, without `show_output`, discarded output.
void stand_apart(bool show_output) {
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDWR);
  if (nothing >= 0) {
    ::dup2(nothing, STDIN_FILENO);
    if (!show_output) {
      ::dup2(nothing, STDOUT_FILENO);
      ::dup2(nothing, STDERR_FILENO);
    }
    if (nothing > STDERR_FILENO) ::close(nothing);
  }
}

}  // namespace

ChildPool::ChildPool() : signals_(new Signals) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;  // with an inherited SIG_IGN, exit statuses would be lost
  ::sigaction(SIGCHLD, &action, &signals_->child_before);
  sigemptyset(&signals_->watched);
  sigaddset(&signals_->watched, SIGCHLD);
  for (int number : kEnding) sigaddset(&signals_->watched, number);
  ::sigprocmask(SIG_BLOCK, &signals_->watched, &signals_->before);
}

ChildPool::~ChildPool() {
  for (const Child& child : children_) {
    if (child.process.pid <= 0) continue;
    ::kill(-child.process.pid, SIGKILL);
    ::waitpid(child.process.pid, nullptr, 0);
  }
  ::sigprocmask(SIG_SETMASK, &signals_->before, nullptr);
  ::sigaction(SIGCHLD, &signals_->child_before, nullptr);
  delete signals_;
}

void ChildPool::start(std::size_t number, const std::vector<std::string>& command, const Environment& environment,
                      std::chrono::duration<double> limit, bool show_output) {
  const Clock::time_point now = Clock::now();
  children_.reserve(children_.size() + 1);  // a child that is not in the list would never be waited for
  ForkedChild child = start_child(command, environment, [&] {
    ::sigaction(SIGCHLD, &signals_->child_before, nullptr);
    ::sigprocmask(SIG_SETMASK, &signals_->before, nullptr);
    stand_apart(show_output);
  });
  children_.push_back({number, std::move(child), now, now + std::chrono::duration_cast<Clock::duration>(limit), false});
}

bool ChildPool::collect(std::size_t* number, PoolResult* result) {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    if (!child.timed_out && child.process.pid > 0 && now >= child.deadline) {
      child.timed_out = true;
      ::kill(-child.process.pid, SIGKILL);
    }
    int status = 0;
    if (child.process.pid > 0 && ::waitpid(child.process.pid, &status, WNOHANG) != child.process.pid) continue;
    if (child.process.pid > 0) ::kill(-child.process.pid, SIGKILL);  // its background processes
    *result = {};
    result->child = result_of(child.process, status);
    result->timed_out = child.timed_out;
    result->seconds = std::chrono::duration<double>(now - child.started).count();
    *number = child.number;
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

bool ChildPool::wait(std::chrono::duration<double> patience, std::size_t* number, PoolResult* result) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  while (signal_ == 0) {
    if (collect(number, result)) return true;
    Clock::time_point next = end;
    for (const Child& child : children_) {
      if (!child.timed_out) next = std::min(next, child.deadline);
    }
    const Clock::time_point now = Clock::now();
    if (now >= end) return false;
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(next - now).count();
    const timespec limit = {left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0};
    const int received = ::sigtimedwait(&signals_->watched, nullptr, &limit);
    if (received > 0 && received != SIGCHLD) signal_ = received;
  }
  return false;
}

}  // namespace culprit::report
