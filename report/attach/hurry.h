// Lets this process come before others, where the system allows that: a thread of the program waits for it.
#pragma once

#include <sched.h>
#include <sys/resource.h>

namespace culprit::report {

// As long as the object lives, a larger share of the processors.
class Hurry {
 public:
  Hurry() : before_(::getpriority(PRIO_PROCESS, 0)) { ::setpriority(PRIO_PROCESS, 0, -20); }
  ~Hurry() { ::setpriority(PRIO_PROCESS, 0, before_); }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

 private:
  const int before_;
};

// As long as the object lives, a processor at once, whenever this process has something to do: with a share only, it
// waits for milliseconds at each stop on a machine whose processors are all in use. For the time of a stop, which is
// short: on a machine with one processor the program's other threads wait meanwhile.
class GreatHurry {
 public:
  GreatHurry() {
    const sched_param lowest = {::sched_get_priority_min(SCHED_RR)};
    is_first_ = ::sched_getscheduler(0) == SCHED_OTHER && ::sched_setscheduler(0, SCHED_RR, &lowest) == 0;
  }
  ~GreatHurry() {
    const sched_param none = {0};
    if (is_first_) ::sched_setscheduler(0, SCHED_OTHER, &none);
  }
  GreatHurry(const GreatHurry&) = delete;
  GreatHurry& operator=(const GreatHurry&) = delete;
  // Whether the system allowed it.
  bool is_granted() const { return is_first_; }

 private:
  bool is_first_ = false;
};

}  // namespace culprit::report
