#include "report/attach/thread_choice.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "report/attach/call_signals.h"
#include "report/attach/ptrace_stops.h"
#include "report/attach/registers.h"
#include "report/attach/thread_stack.h"

namespace culprit::report {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPatience{100};  // for a stop; later ones are let go when they come
// For a thread that moves bytes: it is then unlikely to begin to do so just now.
constexpr milliseconds kLongRunning{1};
constexpr int kFewLooks = 4;            // tell the habits of a thread
constexpr std::uint64_t kRoom = 16384;  // below the stack pointer

// The kernel blocks a signal while its handler runs.
bool is_in_handler_of_users(pid_t thread) {
  std::uint64_t mask = 0;
  return trace(PTRACE_GETSIGMASK, thread, sizeof(mask), reinterpret_cast<std::uint64_t>(&mask)) == 0 &&
         (mask & bit_of(kOfUsers)) != 0;
}

}  // namespace

// The call under the number by which the program made it. Remembers it, and the words where it stores, when it is
// interrupted, how much time remains.
ThreadCall ThreadChoice::named(pid_t thread, ThreadCall call) {
  if (call.running || call.number < 0) return call;
  Seen& seen = seen_[thread];
  const long made = calls_.number(call);
  const bool continued = made == call.number && seen.last && BlockingCalls::continues(call, *seen.last);
  call.number = continued ? seen.last->number : made;
  if (seen.last && *seen.last == call) return call;
  seen.last = call;
  seen.remainder = KeptRemainder(process_, calls_.remainder_at(call));
  return call;
}

std::string ThreadChoice::sleeps(pid_t thread) const {
  return process_.thread(thread).status("voluntary_ctxt_switches");
}

ThreadChoice::Rank ThreadChoice::rank(pid_t thread, const ThreadCall& call) {
  Seen& seen = seen_[thread];
  ++seen.looks;
  if (seen.refused && *seen.refused == call && !call.running && seen.refused_after == sleeps(thread))
    return Rank::kNever;
  if (!call.running) {
    seen.running_since = {};
    if (call.number < 0) return Rank::kNever;  // it waits for a page, or ends
    const StopEffect effect = calls_.effect(call);
    if (effect == StopEffect::kNone) return Rank::kFirst;
    if (effect == StopEffect::kAgain) return Rank::kThird;
    const long number = call.number;
    seen.moves_parts = seen.moves_parts || BlockingCalls::moves_parts(number);
    where_ =
        "thread " + std::to_string(thread) + " in " + BlockingCalls::name(number) + ", which a stop would interrupt";
    return Rank::kNever;
  }
  // It may be about to sleep in a call. One that has only begun can be repeated, unless it moves a part at a time.
  if (seen.looks > kFewLooks && !seen.moves_parts) return Rank::kSecond;
  std::string slept = sleeps(thread);
  if (seen.running_since == Time() || seen.sleeps != slept) {
    seen.running_since = steady_clock::now();
    seen.sleeps = std::move(slept);
    return Rank::kNever;
  }
  return steady_clock::now() - seen.running_since > kLongRunning ? Rank::kSecond : Rank::kNever;
}

bool ThreadChoice::may_be_stopped(pid_t thread) {
  const ThreadCall call = named(thread, process_.thread(thread).current_call());
  return call.running || (call.number >= 0 && calls_.effect(call) == StopEffect::kNone);
}

// For a stopped thread: whether it is in no call, in one that has ended, or in one that the kernel continues. Counts
// calls that it entered just before the stop.
bool ThreadChoice::is_as_expected(pid_t thread) {
  ThreadRegisters registers;
  if (!read_general_registers(thread, &registers)) return false;
  ThreadCall call;
  if (!entered_call(registers, &call)) return true;
  const long entered = call.number;
  call = named(thread, call);
  const long number = call.number;
  if (is_to_be_restarted(registers)) {
    seen_[thread].remainder.put_back(process_);
    if (number != entered) {
      set_entered_call(&registers, number);
      if (!write_registers(thread, registers)) return false;
    }
    if (calls_.effect(call) != StopEffect::kSeen) return true;
    ++repeated_calls_;
    where_ = "thread " + std::to_string(thread) + " in " + BlockingCalls::name(number) + ", which it had just begun";
    return false;
  }
  if (BlockingCalls::is_cut(call, system_call_result(registers))) {
    ++cut_calls_;
    cut_call_ = BlockingCalls::name(number);
  }
  return true;
}

// By system calls of its own a thread may have another user, other files or other descriptors than the program's first
// one. The dump would be made with these. Empty: it has none.
std::string ThreadChoice::what_it_has_alone(pid_t thread) const {
  const pid_t first = process_.living_thread();
  if (thread == first) return {};
  const ProcessFolder its = process_.thread(thread);
  const ProcessFolder of_first = process_.folder().living();
  for (const char* field : {"Uid", "Gid"}) {
    if (its.status(field) != of_first.status(field)) return "a user of its own";
  }
  for (const char* link : {"root", "ns/mnt"}) {
    if (its.link(link) != of_first.link(link)) return "files of its own";
  }
  // Negative where the system does not tell.
  if (::syscall(SYS_kcmp, first, thread, KCMP_FILES, 0, 0) > 0) return "descriptors of its own";
  return {};
}

void ThreadChoice::let_go(pid_t thread, Time stopped) {
  HijackedThread::release(thread);
  longest_stop_ = std::max<std::chrono::nanoseconds>(longest_stop_, steady_clock::now() - stopped);
}

// Stops the thread and decides whether it can be borrowed. `choosy`: there is time to wait for a better one.
bool ThreadChoice::try_thread(pid_t thread, Rank wanted, bool choosy, ChosenThread* chosen) {
  // Before the stop, because it takes time in a large program.
  const FirstStack first = thread == process_.pid() ? first_stack(process_) : FirstStack();
  // Once more, because stopping other threads took time.
  const ThreadCall call = named(thread, process_.thread(thread).current_call());
  if (rank(thread, call) != wanted) return false;
  const std::string alone = what_it_has_alone(thread);
  if (!alone.empty()) {
    where_ = "thread " + std::to_string(thread) + ", which has " + alone;
    return false;
  }
  const std::string slept = sleeps(thread);
  auto hurry = std::make_unique<const GreatHurry>();
  const Time begin = steady_clock::now();
  switch (HijackedThread::stop(process_, thread, waiter_, begin + kPatience)) {
    case HijackedThread::Stop::kGone:
      return false;
    case HijackedThread::Stop::kBusy:
      where_ = "thread " + std::to_string(thread) + " in the kernel, which does not let it stop";
      return false;
    case HijackedThread::Stop::kGroupStopped:
      let_go(thread, begin);
      throw AttachError(process_.name() + " was stopped meanwhile: continue it first (kill -CONT " +
                        std::to_string(process_.pid()) + ")");
    case HijackedThread::Stop::kStopped:
      break;
  }
  // A thread that is asked to stop goes on with its own work, or waits for a processor as it does without that, until
  // it stops. This process sees that at once in a great hurry only.
  const Time stopped = hurry->is_granted() ? steady_clock::now() : begin;
  if (!is_as_expected(thread)) {
    let_go(thread, stopped);
    return false;
  }
  std::string found;
  StackWalk walk;
  SafePoint point = finder_->look_at(thread, &found, &walk);
  if (point != SafePoint::kUnsafe && HijackedThread::in_restartable_sequence(process_, thread)) {
    point = SafePoint::kUnsafe;
    found = "a restartable sequence";
  }
  if (point != SafePoint::kUnsafe && HijackedThread::dispatches_calls(process_, thread)) {
    point = SafePoint::kUnsafe;
    found = "code whose system calls the program itself handles";
  }
  if (point == SafePoint::kSafe && is_in_handler_of_users(thread)) {
    point = SafePoint::kUnknown;  // libc lets no program block that signal, but a system call of its own does
    found = "the handler by which libc changes a thread's user";
  }
  ThreadRegisters registers;
  if (point != SafePoint::kUnsafe && read_general_registers(thread, &registers)) {
    const std::uint64_t pointer = stack_pointer(registers);
    if (has_data_of_another(process_, thread, thread_pointer(registers))) {
      where_ = "thread " + std::to_string(thread) + ", which uses the thread-local data of another one";
      let_go(thread, stopped);
      return false;
    }
    const std::optional<std::uint64_t> floor = stack_floor(process_, thread_pointer(registers), pointer, walk, first);
    const bool room = floor && pointer > *floor && pointer - *floor > kRoom;
    if ((point == SafePoint::kSafe && room) || !choosy) {
      *chosen = {thread, room ? *floor : 0, stopped, std::move(hurry)};
      return true;
    }
    if (found.empty()) found = floor ? "a call near the end of its stack" : "a call on a stack that is not its own";
  }
  where_ = "thread " + std::to_string(thread) + " in " + found;
  let_go(thread, stopped);
  seen_[thread].refused = call;
  seen_[thread].refused_after = slept;
  return false;
}

ChosenThread ThreadChoice::stop_one(milliseconds limit) {
  Time begin = steady_clock::now();
  Time end = begin + limit;
  bool choosy = true;
  ChosenThread chosen;
  for (int round = 0; waiter_->interrupted() == 0; ++round) {
    if (finder_ == nullptr || finder_->is_outdated(process_)) {
      finder_.reset();  // before the next is made: there may be one at a time
      const Time before = steady_clock::now();
      finder_ = std::make_unique<SafePointFinder>(process_);
      // In a large program the first takes as long as the limit.
      if (round == 0) {
        begin += steady_clock::now() - before;
        end += steady_clock::now() - before;
      }
    }
    if (choosy && steady_clock::now() > begin + limit * 2 / 3) {
      choosy = false;
      for (auto& seen : seen_) seen.second.refused.reset();
    }
    std::vector<std::pair<Rank, pid_t>> candidates;
    for (const pid_t thread : process_.threads()) {
      if (waiter_->is_awaited(thread)) continue;
      const Rank found = rank(thread, named(thread, process_.thread(thread).current_call()));
      if (found != Rank::kNever) candidates.emplace_back(found, thread);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& left, const auto& right) { return left.first < right.first; });
    for (const auto& [wanted, thread] : candidates) {
      if (waiter_->interrupted() != 0 || steady_clock::now() > end) break;
      if (try_thread(thread, wanted, choosy, &chosen)) return chosen;
    }
    if (steady_clock::now() > end) break;
    if (!process_.is_alive()) throw AttachError(process_.name() + " has ended");
    waiter_->pause(round < 20 ? milliseconds(1) : milliseconds(2));
  }
  if (waiter_->interrupted() != 0) return {};
  throw AttachError("no thread of " + process_.name() + " came to a point where a call can be injected (last: " +
                    where_ + "): nothing was changed; try again, or with a longer --timeout");
}

}  // namespace culprit::report
