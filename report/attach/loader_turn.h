// Gives a borrowed thread the loader's lock, in a program whose threads load and close libraries without pause.
//
// glibc's lock is not fair: a thread that releases it has taken it again before one that waits for it is awake. So the
// thread that has the lock is stopped and runs on to the system call by which it wakes a waiter, which it makes after
// the release. There it is held until the borrowed thread has the lock. It makes the call by itself when culprit dies,
// because the stop before a system call belongs to the tracer alone.
//
// Rejected: a breakpoint behind the release (debug registers outlive culprit, and the signal would end the program),
// single steps (a dlopen() has about a million instructions), and the call in that very thread (it would have to leave
// the system call and make it later, and threads that wait for it would hang if culprit died in between).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include "report/attach/loader_locks.h"
#include "report/attach/stop_waiter.h"
#include "report/attach/thread_choice.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

class LoaderTurn {
 public:
  // `lock`: may be one that is not known.
  LoaderTurn(const TracedProcess& process, const LoadingLock& lock, ThreadChoice* choice, StopWaiter* waiter)
      : process_(process), lock_(lock), choice_(choice), waiter_(waiter) {}
  ~LoaderTurn() { let_go(); }
  LoaderTurn(const LoaderTurn&) = delete;
  LoaderTurn& operator=(const LoaderTurn&) = delete;

  // Waits until the lock is free, and holds the threads that had it. False: they did not release it in time.
  bool wait(Deadline deadline);

  // Once the borrowed thread runs: lets the others go on as soon as it has the lock, or is `done`, or after a short
  // time, because it may need a lock of theirs.
  void pass_to(pid_t borrowed, const std::function<bool()>& done);
  void let_go();

  // The longest time for which another thread was held.
  std::chrono::nanoseconds longest_stop() const { return longest_stop_; }

 private:
  struct Held {
    pid_t thread;
    Deadline since;
  };
  void hold_at_release(pid_t thread, Deadline deadline);
  bool is_at_release(pid_t thread) const;

  const TracedProcess& process_;
  const LoadingLock& lock_;
  ThreadChoice* choice_;
  StopWaiter* waiter_;
  std::vector<Held> held_;
  std::chrono::nanoseconds longest_stop_{0};
};

}  // namespace culprit::report
