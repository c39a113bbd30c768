// Chooses the thread that is borrowed, and stops it.
//
// Threads are judged from outside first (/proc/PID/task/TID/syscall), since the stop itself is what interrupts a call.
// A thread may enter another call between that look and the stop. Its registers tell then, and a call that has only
// begun is repeated with its whole time-out; what cannot be repeated is counted.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "report/attach/blocking_calls.h"
#include "report/attach/hijacked_thread.h"
#include "report/attach/hurry.h"
#include "report/attach/safe_point.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

struct ChosenThread {
  pid_t thread = 0;                               // stopped; 0 = a signal to this process asked for the end
  std::uint64_t stack_floor = 0;                  // the lowest address of its stack; 0 = not known
  std::chrono::steady_clock::time_point stopped;  // since then
  std::unique_ptr<const GreatHurry> hurry;        // as long as it is stopped
};

class ThreadChoice {
 public:
  ThreadChoice(const TracedProcess& process, StopWaiter* waiter)
      : process_(process), waiter_(waiter), calls_(process) {}

  // Throws AttachError when no thread came to a point where it can be borrowed.
  ChosenThread stop_one(std::chrono::milliseconds limit);

  // Whether a stop of this thread would go unnoticed, as far as that can be told without one.
  bool may_be_stopped(pid_t thread);
  // After a stop: see the implementation.
  bool is_as_expected(pid_t thread);

  // After stop_one(): there may be one at a time.
  SafePointFinder* finder() { return finder_.get(); }

  // The longest time that a thread was stopped and not borrowed.
  std::chrono::nanoseconds longest_stop() const { return longest_stop_; }
  // Calls of the program that were entered between the look and the stop: those that were repeated, and those that may
  // have returned early, of which `call` is the last.
  int repeated_calls() const { return repeated_calls_; }
  int cut_calls() const { return cut_calls_; }
  const std::string& cut_call() const { return cut_call_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Seen {
    int looks = 0;
    bool moves_parts = false;           // was seen in such a call
    Time running_since;                 // without sleeping in between
    std::string sleeps;                 // how often it slept, at running_since
    std::optional<ThreadCall> refused;  // where it was when it was refused
    std::optional<ThreadCall> last;     // the call that it slept in last
    KeptRemainder remainder;            // where that stores what remains of its time
    std::string refused_after;          // ... and how often it had slept
  };
  enum class Rank { kFirst, kSecond, kThird, kNever };

  ThreadCall named(pid_t thread, ThreadCall call);
  Rank rank(pid_t thread, const ThreadCall& call);
  bool try_thread(pid_t thread, Rank rank, bool choosy, ChosenThread* chosen);
  std::string what_it_has_alone(pid_t thread) const;
  void let_go(pid_t thread, Time stopped);
  std::string sleeps(pid_t thread) const;

  const TracedProcess& process_;
  StopWaiter* waiter_;
  BlockingCalls calls_;
  std::unique_ptr<SafePointFinder> finder_;
  std::map<pid_t, Seen> seen_;
  std::string where_ = "no thread was seen";
  std::chrono::nanoseconds longest_stop_{0};
  int repeated_calls_ = 0;
  int cut_calls_ = 0;
  std::string cut_call_;
};

}  // namespace culprit::report
