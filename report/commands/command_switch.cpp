// culprit start PID, culprit stop PID: switch recording of a running process on and off.
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/commands/commands.h"
#include "report/proc/target_process.h"

namespace culprit::report {
namespace {

struct SwitchCommand {
  std::uint32_t pid = 0;
};

int not_switched(const std::string& message) {
  log::error(message);
  return kExitUnreadable;
}

// Whether the process confirms the switch within two seconds.
bool answers(const TargetProcess& target, format::RecordingState wanted) {
  for (int i = 0; i < 200; ++i) {
    format::Header header = {};
    if (read_header(kProc, target, &header) && header.recording_state == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Why a process that does not wait for the signal cannot be switched, and the command that helps.
std::string not_switchable(const TargetProcess& target, bool on) {
  const std::string pid = std::to_string(target.pid);
  format::Header header = {};
  const bool attached = !target.dump.empty() && read_header(kProc, target, &header) &&
                        (header.attached == format::Attached::kRedirect || header.attached == format::Attached::kCupti);
  if (target.detached || (attached && header.process_state == format::ProcessState::kDetached))
    return on ? " was detached: culprit attach " + pid + " records again" : " was detached: nothing is recorded";
  if (attached)
    return on ? " is recorded already, by culprit attach" : " is recorded by culprit attach: culprit detach " + pid;
  return std::string(on ? " records from its start on" : " records until its end") +
         ": only a program that was started with culprit run --paused, or with CULPRIT_START=signal in its " +
         "environment, is switched on and off";
}

// Switches recording and waits until the process confirms it. Returns the exit code.
int run_switch(const SwitchCommand& command, bool on) {
  const TargetProcess target = find_target(kProc, command.pid);
  const std::string pid = std::to_string(target.pid);
  if (target.without_library)
    return not_switched(target.problem +
                        (on ? ": culprit attach " + pid + " begins to record in it" : ": nothing is recorded"));
  if (!target.problem.empty()) return not_switched(target.problem);
  const std::string name = "process " + pid;
  if (!target.waits_for_signal) return not_switched(name + not_switchable(target, on));
  const std::string signal_text = "signal " + target.signal_name;
  const std::string other_signal = other_signal_advice();
  if (target.ignores_signal) return not_switched(name + " ignores " + signal_text + ": " + other_signal);
  // Without libculprit.so's handler the signal would end the process, or reach a handler of the program.
  if (!target.has_cuda || (!target.catches_signal && target.dump.empty()))
    return not_switched(name + " has not used CUDA yet, and waits for " + signal_text +
                        " only from its first CUDA call on: try again then");
  if (!target.catches_signal)
    return not_switched(name + " does not wait for " + signal_text + ": the program has reset it; " + other_signal);
  union sigval value = {};
  value.sival_int = on ? format::kSwitchOn : format::kSwitchOff;
  if (::sigqueue(static_cast<pid_t>(target.pid), target.signal_number, value) != 0)
    return not_switched(name + " cannot be sent " + signal_text + ": " + std::strerror(errno));
  if (target.dump.empty()) {
    std::cout << name << (on ? " records from its next CUDA call on\n" : " has recorded nothing, and will not\n");
    return kExitFine;
  }
  if (!answers(target, on ? format::RecordingState::kOn : format::RecordingState::kOff))
    return not_switched(name + " did not answer: it may be stopped, or handle " + signal_text +
                        " itself: in that case " + other_signal);
  std::cout << name << (on ? " records now: " : " records nothing new now: ") << target.dump << "\n";
  return kExitFine;
}

Action declare_switch(OptionList* options, bool on) {
  const auto command = std::make_shared<SwitchCommand>();
  options->add("PID", &command->pid, "The process, or the culprit run that started it")
      .positive()
      .is_required()
      .type("");
  return [command, on] { return run_switch(*command, on); };
}

}  // namespace

Action declare_start(OptionList* options) { return declare_switch(options, true); }
Action declare_stop(OptionList* options) { return declare_switch(options, false); }

}  // namespace culprit::report
