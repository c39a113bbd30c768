#include "report/attach/loader_turn.h"

#include <linux/futex.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "report/attach/ptrace_stops.h"
#include "report/attach/registers.h"

namespace culprit::report {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::microseconds kBetweenOwners{20};
constexpr std::chrono::milliseconds kLongestHold{1};  // while the borrowed thread takes the lock

}  // namespace

bool LoaderTurn::wait(Deadline deadline) {
  while (true) {
    const std::optional<LoadingLock::State> state = lock_.read(process_);
    if (!state || state->word == 0) return true;
    if (steady_clock::now() >= deadline || waiter_->interrupted() != 0) return false;
    const pid_t owner = lock_.owner(process_);
    const bool held = std::any_of(held_.begin(), held_.end(), [&](const Held& each) { return each.thread == owner; });
    if (owner != 0 && !held && choice_->may_be_stopped(owner)) {
      hold_at_release(owner, deadline);
    } else {
      std::this_thread::sleep_for(kBetweenOwners);
    }
  }
}

// Whether the thread, at a stop for a system call, has released the lock and wakes a waiter.
bool LoaderTurn::is_at_release(pid_t thread) const {
  ThreadRegisters registers;
  ThreadCall call;
  if (!read_general_registers(thread, &registers) || !entered_call(registers, &call)) return false;
  const auto operation = static_cast<int>(call.arguments[1]) & FUTEX_CMD_MASK;
  return call.number == lock_number() && call.arguments[0] == lock_.address() && operation == FUTEX_WAKE;
}

// The thread has the lock, or had it a moment ago.
void LoaderTurn::hold_at_release(pid_t thread, Deadline deadline) {
  if (trace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) != 0) {
    std::this_thread::sleep_for(kBetweenOwners);  // another tracer has it, or it ends
    return;
  }
  const BorrowedThread::Stop stop = BorrowedThread::stop_seized(process_, thread, waiter_, deadline);
  if (stop == BorrowedThread::Stop::kGroupStopped) BorrowedThread::release(thread);
  if (stop != BorrowedThread::Stop::kStopped) return;
  choice_->is_as_expected(thread);
  const std::optional<LoadingLock::State> state = lock_.read(process_);
  bool owns = state && state->word != 0 && state->owner == own_number(process_, thread);
  // Then it wakes a waiter. Others may write the same word at any time; only the owner, which is stopped, another one.
  if (owns && state->word == LoadingLock::kTaken)
    owns = process_.write_memory(lock_.address(), &LoadingLock::kAwaited, sizeof(LoadingLock::kAwaited));
  if (!owns) return BorrowedThread::release(thread);
  std::uint64_t signal = 0;
  while (trace(PTRACE_SYSCALL, thread, 0, signal) == 0) {
    int status = 0;
    switch (waiter_->wait(thread, deadline, &status)) {
      case StopWaiter::Event::kGone:
        return;
      case StopWaiter::Event::kTimeout:
        waiter_->let_go_later(thread);
        return;
      case StopWaiter::Event::kStopped:
        break;
    }
    if (is_group_stop(status)) return BorrowedThread::release(thread);
    signal = is_signal(status) ? static_cast<std::uint64_t>(WSTOPSIG(status)) : 0;
    if (!is_system_call(status) || !is_at_release(thread)) continue;
    held_.push_back({thread, steady_clock::now()});
    return;
  }
}

void LoaderTurn::pass_to(pid_t borrowed, const std::function<bool()>& done) {
  if (held_.empty()) return;
  const std::uint32_t number = own_number(process_, borrowed);
  for (const Deadline end = after(kLongestHold); steady_clock::now() < end && !done();) {
    const std::optional<LoadingLock::State> state = lock_.read(process_);
    if (!state || (state->word != 0 && state->owner == number)) break;
    std::this_thread::sleep_for(kBetweenOwners);
  }
  let_go();
}

void LoaderTurn::let_go() {
  for (const Held& each : held_) {
    BorrowedThread::release(each.thread);
    longest_stop_ = std::max<std::chrono::nanoseconds>(longest_stop_, steady_clock::now() - each.since);
  }
  held_.clear();
}

}  // namespace culprit::report
