// A timer that interrupts one thread, or any running thread, at a given rate.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/guest/programs/guest.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace guest {

inline void on_signal(int signal, void (*handler)(int), int flags = SA_RESTART) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  HOLDS(sigaction(signal, &action, nullptr) == 0);
}

class Timer {
 public:
  // `thread` 0: the process. `hertz` times a second.
  Timer(int signal, long hertz, pid_t thread) {
    sigevent event = {};
    event.sigev_notify = thread == 0 ? SIGEV_SIGNAL : SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    if (thread != 0) event.sigev_notify_thread_id = thread;
    HOLDS(timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0);
    const long pause = 1000000000L / hertz;
    const itimerspec interval = {{0, pause}, {0, pause}};
    HOLDS(timer_settime(timer_, 0, &interval, nullptr) == 0);
  }
  ~Timer() { timer_delete(timer_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  timer_t timer_;
};

inline pid_t thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// A pair of calls in a thread that may have no context.
inline void pair_anywhere(uint64_t path) {
  CUcontext current = nullptr;
  CHECKED(cuCtxGetCurrent(&current));
  if (current == nullptr) use_context();
  pair_by_path(path, 3);
}

// pair_anywhere() in a handler; does nothing when the last pair ended less than 40 us ago, so that the program makes
// progress between two signals even on a slow machine.
inline void pair_in_handler(uint64_t path) {
  static double last;
  if (now() - *const_cast<volatile double*>(&last) < 40e-6) return;
  pair_anywhere(path);
  *const_cast<volatile double*>(&last) = now();
}

}  // namespace guest
