#include "report/attach/hijacked_thread.h"

#include <signal.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <exception>
#include <utility>

#include "report/attach/blocking_calls.h"
#include "report/attach/loader_locks.h"
#include "report/attach/ptrace_stops.h"

namespace culprit::report {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{50};  // at a call that waits at its end; longer for a long one
constexpr std::uint64_t kHoldBytes = 64;                // of stack, that hold() uses
constexpr timespec kLongestWait = {0, 200000000};       // a thread that is not taken out of it resumes its work
// For a lock: its owner may wait for this thread.
constexpr std::chrono::milliseconds kPatienceForLock{5};
constexpr std::chrono::milliseconds kBetweenTries{1};  // to stop a thread that has resumed its work

}  // namespace

// Without memory the thread restores itself, when this process ends.
HijackedThread::~HijackedThread() {
  try {
    put_back();
  } catch (const std::exception&) {
  }
}

// The content of a stack that returns to each of the functions in turn, which have no arguments. A plain return comes
// before each one, so that each finds the stack aligned.
std::vector<std::uint64_t> HijackedThread::returns_to(const std::vector<std::uint64_t>& functions) const {
  std::vector<std::uint64_t> returns;
  for (const std::uint64_t one : functions)
    returns.insert(returns.end(), {code_.system_call + code_.system_call_length, one});
  return returns;
}

// `next`: functions without arguments that are called after it, one after the other.
bool HijackedThread::begin_call(std::uint64_t function, const std::vector<std::uint64_t>& arguments, std::uint64_t back,
                                const std::vector<std::uint64_t>& next) {
  std::vector<std::uint64_t> returns = returns_to(next);
  returns.push_back(back);
  return begin_call_at(stack_begin_ + sizeof(back), std::move(returns), function, arguments);
}

// `returns`: the content of the stack that ends at `end`.
bool HijackedThread::begin_call_at(std::uint64_t end, std::vector<std::uint64_t> returns, std::uint64_t function,
                                   const std::vector<std::uint64_t>& arguments) {
  const std::uint64_t begin = end - returns.size() * sizeof(returns[0]);
  write(begin, returns.data(), returns.size() * sizeof(returns[0]));
  const ThreadRegisters entry = call_registers(before_, function, arguments, begin, at_ == At::kEntry);
  if (!write_registers(thread_, entry) || !resume()) return false;
  at_ = At::kNowhere;
  return true;
}

// As /proc shows it, without a stop.
bool HijackedThread::sleeps_for_lock() const {
  const ThreadCall call = process_.thread(thread_).current_call();
  return !call.running && call.number == lock_number();
}

// The time is up, or the thread seems to wait for a lock.
CallEnd HijackedThread::end_call_in_time() {
  if (!stop_running(after(kShort))) return gone_ ? CallEnd::kGone : CallEnd::kLeftRunning;
  if (waits_for_loader()) return end_blocked_call();
  // The owner of a lock may itself wait until this thread has handled a signal, as garbage collectors do.
  set_mask(signal_mask_);
  trace(PTRACE_DETACH, thread_, 0, 0);
  gone_ = true;
  return CallEnd::kLeftRunning;
}

CallEnd HijackedThread::end_blocked_call() {
  at_ = At::kStart;
  follows_calls_ = true;
  put_back();
  return CallEnd::kBlocked;
}

CallEnd HijackedThread::end_crashed_call() {
  if (owns_loader_lock(process_, loader_data_, thread_))
    left_behind_ = "the loader's lock stays taken, so that its next dlopen() waits for ever";
  at_ = At::kStart;  // a stop for a signal; the signal is not passed on
  put_back();
  return CallEnd::kCrashed;
}

CallEnd HijackedThread::hold(std::uint64_t lock, std::uint64_t idle, std::uint64_t unlock, Deadline deadline) {
  const std::uint64_t plain_return = code_.system_call + code_.system_call_length;
  locking_ = stack_begin_ - 2 * sizeof(std::uint64_t);
  const bool begun = begin_call(lock, {}, plain_return, {idle, unlock});
  const CallEnd end = begun ? await_end(false, deadline, nullptr) : (gone_ = true, CallEnd::kGone);
  locking_ = 0;
  // A libc whose `idle` makes no call has gone on to the end, and holds nothing.
  if (end == CallEnd::kReturned && stops_at_idle_) unlock_ = unlock;
  return end;
}

CallEnd HijackedThread::call(std::uint64_t function, const std::vector<std::uint64_t>& arguments, Deadline deadline,
                             std::uint64_t* result) {
  const std::uint64_t back = result != nullptr ? code_.system_call : code_.system_call + code_.system_call_length;
  std::vector<std::uint64_t> next;
  if (unlock_ != 0) next = {unlock_};
  if (!begin_call(function, arguments, back, next)) return gone_ = true, CallEnd::kGone;
  const CallEnd end = await_end(result != nullptr, deadline, result);
  if (end == CallEnd::kReturned) unlock_ = 0;
  return end;
}

CallEnd HijackedThread::await_end(bool has_result, Deadline deadline, std::uint64_t* result) {
  stops_at_idle_ = false;
  while (true) {
    int status = 0;
    if (!next_stop(std::min<Deadline>(deadline, after(kPatienceForLock)), &status)) {
      if (gone_) return CallEnd::kGone;
      if (std::chrono::steady_clock::now() >= deadline) return end_call_in_time();
      if (!sleeps_for_lock()) continue;
      if (!stop_running(after(kShort))) return gone_ ? CallEnd::kGone : CallEnd::kLeftRunning;
      if (waits_for_loader()) return end_blocked_call();
      if (!resume_stopped()) return gone_ = true, CallEnd::kGone;
      continue;
    }
    SignalOrigin origin = SignalOrigin::kSent;
    if (is_system_call(status)) {
      ThreadRegisters registers;
      if (!read_general_registers(thread_, &registers)) return gone_ = true, CallEnd::kGone;
      const std::uint64_t pointer = stack_pointer(registers);
      const std::uint64_t popped = (pointer - stack_begin_) / sizeof(std::uint64_t);
      const bool with_result =
          popped == 1 && instruction_pointer(registers) == code_.system_call + code_.system_call_length;
      const bool without = popped == 2 && is_signal_return(registers, code_);
      stops_at_idle_ = locking_ != 0 && pointer == locking_ &&
                       entered_system_call(registers) == static_cast<std::uint64_t>(idle_number());
      if (stops_at_idle_ || (has_result ? with_result : without)) {
        if (has_result) *result = entered_system_call(registers);
        at_ = At::kEntry;
        return CallEnd::kReturned;
      }
    } else {
      origin = origin_of_signal(status, &crash_);
    }
    if (origin == SignalOrigin::kFault) return end_crashed_call();
    if (!resume(signal_to_resume_with(status, origin))) return gone_ = true, CallEnd::kGone;
  }
}

// Lays out the calls that follow one without stops: of one that stores a word, which tells its end, of one that waits,
// and of one that stores when the thread resumes its own work after all. Returns the content of the stack that returns
// to them, and where it shall end.
std::vector<std::uint64_t> HijackedThread::write_wait(const WaitFunctions& wait, std::uint64_t* end) {
  struct Words {
    timespec limit;
    timespec resumed;
    std::uint64_t finished;
    std::uint64_t padding;
  };
  const Words words = {kLongestWait, {}, 0, 0};
  // Until the call begins, a thread that is abandoned returns through what hold() has laid out.
  std::uint64_t place = (stack_begin_ - kHoldBytes - sizeof(words)) & ~std::uint64_t{15};
  write(place, &words, sizeof(words));
  const std::uint64_t limit_at = place + offsetof(Words, limit);
  finished_at_ = place + offsetof(Words, finished);
  resumed_at_ = place + offsetof(Words, resumed);
  // Returns the content of the stack that returns to a system call, which itself returns through that at `stack`.
  const auto add = [&](std::uint64_t stack, std::vector<std::uint64_t> arguments) {
    const auto content = [&] { return call_context(place, wait.system_call, arguments, stack, mask_in_call()); };
    // setcontext() pushes a word on that stack.
    place = (place - sizeof(std::uint64_t) - content().size()) & ~std::uint64_t{15};
    const std::vector<unsigned char> context = content();
    write(place, context.data(), context.size());
    return std::vector<std::uint64_t>{code_.pop_argument, place, wait.set_context};
  };
  // The same before a call that returns through `returns`.
  const auto add_before = [&](const std::vector<std::uint64_t>& returns, std::vector<std::uint64_t> arguments) {
    place -= 5 * sizeof(returns[0]);  // at a function call the stack pointer is 8 more than a multiple of 16
    const std::uint64_t stack = place;
    write(stack, returns.data(), returns.size() * sizeof(returns[0]));
    return add(stack, std::move(arguments));
  };
  const std::vector<std::uint64_t> third =
      add(stack_begin_, {static_cast<std::uint64_t>(clock_number()), CLOCK_MONOTONIC, resumed_at_, 0, 0, 0});
  const std::vector<std::uint64_t> second =
      add_before(third, {static_cast<std::uint64_t>(wait_number()), 0, 0, limit_at, 0, 0});
  // The mask that is stored has bits in any case.
  const std::vector<std::uint64_t> first = add_before(
      second, {static_cast<std::uint64_t>(mask_number()), SIG_BLOCK, 0, finished_at_, sizeof(std::uint64_t), 0});
  *end = place;
  return first;
}

CallEnd HijackedThread::call_without_stops(std::uint64_t function, const std::vector<std::uint64_t>& arguments,
                                           Deadline deadline, const WaitFunctions& wait,
                                           const std::function<void()>& meanwhile) {
  if (wait.set_context == 0 || wait.system_call == 0 || code_.pop_argument == 0) {
    meanwhile();
    return call(function, arguments, deadline, nullptr);
  }
  std::uint64_t end = 0;
  const std::vector<std::uint64_t> to_wait = write_wait(wait, &end);
  std::vector<std::uint64_t> returns;
  if (unlock_ != 0) returns = returns_to({unlock_});
  returns.insert(returns.end(), to_wait.begin(), to_wait.end());
  follows_calls_ = false;
  set_mask(mask_in_call());
  if (!begin_call_at(end, std::move(returns), function, arguments)) return gone_ = true, CallEnd::kGone;
  meanwhile();
  const CallEnd result = await_finished(deadline);
  if (result == CallEnd::kReturned) unlock_ = 0;
  return result;
}

CallEnd HijackedThread::await_finished(Deadline deadline) {
  const Deadline begin = std::chrono::steady_clock::now();
  Deadline look = after(kPatienceForLock);
  while (true) {
    int status = 0;
    const Deadline now = std::chrono::steady_clock::now();
    if (next_stop(std::min<Deadline>(deadline, now + kBetweenLooks + (now - begin) / 50), &status)) {
      const SignalOrigin origin = is_in_own_work() ? SignalOrigin::kSent : origin_of_signal(status, &crash_);
      follows_calls_ = origin == SignalOrigin::kFault;
      if (origin == SignalOrigin::kFault) return end_crashed_call();
      if (!resume(signal_to_resume_with(status, origin))) break;
    } else if (gone_) {
      break;
    } else if (has_finished()) {
      if (!take_out_of_wait(deadline)) break;
      follows_calls_ = true;
      if (!has_resumed_) set_mask(mask_in_call() | bit_of(kOfUsers));
      return CallEnd::kReturned;
    } else if (std::chrono::steady_clock::now() >= deadline) {
      return end_call_in_time();
    } else if (std::chrono::steady_clock::now() >= look) {
      look = after(kPatienceForLock);
      if (!sleeps_for_lock()) continue;
      if (!stop_running(after(kShort))) return gone_ ? CallEnd::kGone : CallEnd::kLeftRunning;
      if (waits_for_loader()) return end_blocked_call();
      if (!resume_stopped()) break;
    }
  }
  return end_without_thread();
}

// The thread is not there any more, or cannot be stopped now. After the call it may have resumed its own work, and
// ended.
CallEnd HijackedThread::end_without_thread() {
  const bool finished = has_finished();
  if (!has_ended_) waiter_->let_go_later(thread_);
  gone_ = true;
  if (!finished) return CallEnd::kGone;
  note_resumed();
  return CallEnd::kReturned;
}

// Its own work goes on since the time that it has stored; that clock may be another one (a time name space).
void HijackedThread::note_resumed() {
  timespec time = {};
  has_resumed_ = true;
  const Deadline now = std::chrono::steady_clock::now();
  Deadline resumed = now;
  if (resumed_at_ != 0 && read(resumed_at_, &time, sizeof(time)))
    resumed = Deadline(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  if (resumed < stopped_ || resumed > now) resumed = now;
  longest_stop_ = std::max<std::chrono::nanoseconds>(longest_stop_, resumed - stopped_);
  stopped_ = now;
}

// Whether the thread has resumed its own work and sleeps in a call that a stop would interrupt, as /proc shows it.
bool HijackedThread::must_not_stop() const {
  const ThreadCall call = process_.thread(thread_).current_call();
  if (call.running || call.number < 0 || call.stack_pointer - memory_ < memory_size_) return false;
  return BlockingCalls(process_).effect(call) == StopEffect::kSeen;
}

// Stops the thread where the kernel handles signals. If it was let wait for too long, it has resumed its own work, as
// an abandoned one does: then it is borrowed anew, once it is where a stop does not interrupt it.
bool HijackedThread::take_out_of_wait(Deadline deadline) {
  ThreadRegisters registers;
  while (must_not_stop() && std::chrono::steady_clock::now() < deadline) waiter_->pause(kBetweenTries);
  if (!stop_running(after(kShort))) return false;
  while (is_in_handler_of_users() && !is_in_own_work()) {
    int status = 0;
    if (!resume_stopped() || next_stop(std::chrono::steady_clock::now() + kBetweenLooks, &status)) {
      if (gone_ || !resume(signal_to_resume_with(status, SignalOrigin::kSent))) return false;
    }
    if (!stop_running(after(kShort))) return false;
  }
  if (!read_registers(thread_, &registers)) return false;
  at_ = At::kStart;
  if (stack_pointer(registers) - memory_ < memory_size_) {
    finished_at_ = 0;
    return true;
  }
  repeat_call(process_, thread_);
  note_resumed();
  own_stack_ = errno_at_ = finished_at_ = 0;
  return read_registers(thread_, &before_) &&
         trace(PTRACE_GETSIGMASK, thread_, sizeof(signal_mask_), reinterpret_cast<std::uint64_t>(&signal_mask_)) == 0;
}

// Stops the thread in the middle of a call. The handler of kOfUsers then does not begin before resume_stopped().
bool HijackedThread::stop_running(Deadline deadline) {
  trace(PTRACE_INTERRUPT, thread_, 0, 0);
  int status = 0;
  while (next_stop(deadline, &status)) {
    if (is_trap_of_ours(status)) return true;
    if (is_signal(status) && WSTOPSIG(status) == kOfUsers && !is_in_own_work()) {
      holds_users_ = true;
      set_mask(mask() | bit_of(kOfUsers));
    }
    // Any other stop, for example at the end of the current system call, makes the kernel forget the request.
    trace(PTRACE_INTERRUPT, thread_, 0, 0);
    trace(PTRACE_CONT, thread_, 0, signal_to_resume_with(status, origin_of_signal(status, &crash_)));
  }
  return false;
}

// After stop_running(): the call goes on.
bool HijackedThread::resume_stopped() {
  if (std::exchange(holds_users_, false)) set_mask(mask() & ~bit_of(kOfUsers));
  return resume();
}

// After stop_running(), at the end of a call. The kernel blocks a signal while its handler runs.
bool HijackedThread::is_in_handler_of_users() const {
  return !holds_users_ && ((mask() & ~signal_mask_) & bit_of(kOfUsers)) != 0;
}

// Whether the thread sleeps in the loader's lock without owning any of its locks, or in the one of hold(): nothing is
// half done then.
bool HijackedThread::waits_for_loader() const {
  ThreadRegisters registers;
  std::uint64_t lock = 0;
  if (!read_general_registers(thread_, &registers) || !is_waiting_for_lock(registers, &lock)) return false;
  if (locking_ != 0) return true;
  const bool of_loader = std::any_of(loader_data_.begin(), loader_data_.end(),
                                     [&](const MappedRange& range) { return range.contains(lock); });
  return of_loader && !owns_loader_lock(process_, loader_data_, thread_);
}

bool HijackedThread::put_back() {
  const bool is_back = restore_after_hold();
  if (!has_resumed_ || is_back)
    longest_stop_ = std::max<std::chrono::nanoseconds>(longest_stop_, std::chrono::steady_clock::now() - stopped_);
  return is_back;
}

bool HijackedThread::restore_after_hold() {
  if (gone_) return false;
  if (unlock_ != 0) {
    const std::uint64_t unlock = std::exchange(unlock_, 0);
    const std::uint64_t plain_return = code_.system_call + code_.system_call_length;
    if (!begin_call(unlock, {}, plain_return) || await_end(false, after(kShort), nullptr) != CallEnd::kReturned)
      return false;
  }
  return restore();
}

}  // namespace culprit::report
