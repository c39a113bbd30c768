// The signals of a command that has the whole terminal, as events that it waits for together with keys.
#pragma once

#include <signal.h>

#include <vector>

#include "report/base/descriptor.h"

namespace culprit::report {

// From its construction on the signals that end or stop a command, and those about its terminal, are blocked in this
// thread and in those that it starts. The destructor unblocks them. From one thread.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  // Can be read when there is a signal; -1: the system has no signalfd.
  int descriptor() const { return file_.get(); }
  // The signals that came since the last call.
  std::vector<int> taken() const;

  // While another program has the terminal: the signals are as they were before this object.
  void let_all(bool let) const;

  // Lets this one signal have the effect that it has without this object, and returns if that did not end the process:
  // SIGTSTP stops it until SIGCONT.
  static void let(int number);

 private:
  sigset_t before_;
  Descriptor file_;
};

}  // namespace culprit::report
