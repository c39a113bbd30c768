#include "report/base/held_signals.h"

#include <initializer_list>

namespace culprit::report {

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held_, number);
  ::sigprocmask(SIG_BLOCK, &held_, &before_);
}

HeldSignals::~HeldSignals() {
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  if (taken_ != 0) ::raise(taken_);
}

bool HeldSignals::wait(std::chrono::nanoseconds time) {
  if (came()) return true;
  const timespec limit = {static_cast<time_t>(time.count() / 1000000000), static_cast<long>(time.count() % 1000000000)};
  const int number = ::sigtimedwait(&held_, nullptr, &limit);
  if (number > 0) taken_ = number;
  return came();
}

}  // namespace culprit::report
