#include "report/attach/stop_waiter.h"

#include <cerrno>
#include <ctime>

#include "report/attach/ptrace_stops.h"
#include "report/attach/registers.h"
#include "report/attach/seccomp_filters.h"
#include "report/attach/stage.h"

namespace culprit::report {

void repeat_call(const TracedProcess& process, pid_t thread) {
  ThreadRegisters registers;
  if (!read_general_registers(thread, &registers)) return;
  const ThreadRegisters as_found = registers;
  repeat_interrupted_call(&registers);
  // The stop itself makes the thread call restart_syscall(2), which a filter may answer with the process's end.
  if (is_continued_by_restart(registers) && !may_make_call(process, thread, restart_number()))
    repeat_instead_of_restart(&registers);
  if (registers.general != as_found.general) write_registers(thread, registers);
}

StopWaiter::StopWaiter(const TracedProcess& process) : process_(process) {
  sigemptyset(&watched_);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&watched_, number);
  ::sigprocmask(SIG_BLOCK, &watched_, &before_);
}

StopWaiter::~StopWaiter() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

void StopWaiter::take_signal(std::chrono::nanoseconds limit) {
  still_at_stage();
  const auto count = std::max<long long>(limit.count(), 0);
  const timespec time = {static_cast<time_t>(count / 1000000000), static_cast<long>(count % 1000000000)};
  const int number = ::sigtimedwait(&watched_, nullptr, &time);
  if (number > 0 && number != SIGCHLD) interrupted_ = number;
}

StopWaiter::Event StopWaiter::wait(pid_t thread, Deadline deadline, int* status) {
  while (true) {
    let_go_awaited();
    const pid_t found = ::waitpid(thread, status, __WALL | WNOHANG);
    if (found == thread) return WIFSTOPPED(*status) ? Event::kStopped : Event::kGone;
    if (found < 0 && errno != EINTR) return Event::kGone;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return Event::kTimeout;
    take_signal(std::min<std::chrono::nanoseconds>(left, std::chrono::milliseconds(50)));
  }
}

void StopWaiter::pause(std::chrono::milliseconds time) {
  take_signal(time);
  let_go_awaited();
}

void StopWaiter::let_go_awaited() {
  const auto is_done = [this](pid_t thread) {
    int status = 0;
    const pid_t found = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (found == 0) return false;
    // A signal that came first goes on to the program.
    const bool signal = found == thread && is_signal(status);
    if (found == thread && WIFSTOPPED(status) && !signal) repeat_call(process_, thread);
    if (found == thread && WIFSTOPPED(status))
      trace(PTRACE_DETACH, thread, 0, signal ? static_cast<std::uint64_t>(WSTOPSIG(status)) : 0);
    return true;
  };
  awaited_.erase(std::remove_if(awaited_.begin(), awaited_.end(), is_done), awaited_.end());
}

}  // namespace culprit::report
