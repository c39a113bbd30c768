#include "report/screen/top_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "report/base/exit_codes.h"
#include "report/base/failure.h"
#include "report/base/log.h"
#include "report/proc/process_folder.h"
#include "report/run/child_process.h"
#include "report/screen/curses_terminal.h"
#include "report/screen/live_model.h"
#include "report/screen/reading_thread.h"
#include "report/screen/snapshot_file.h"
#include "report/screen/terminal_signals.h"
#include "report/screen/top_keys.h"
#include "report/screen/top_picture.h"

namespace culprit::report {
namespace {

class TopScreen {
 public:
  TopScreen(const TerminalSignals& signals, std::unique_ptr<CursesTerminal> terminal,
            const std::vector<std::string>& targets, double interval, const TopSettings& settings)
      : signals_(signals), terminal_(std::move(terminal)), state_(settings), reading_(targets, interval) {}

  // Returns the exit code.
  int run() {
    while (!ends_ && signal_ == 0) {
      terminal_->show(draw_top(&state_, model_, terminal_->size()));
      pollfd ready[] = {
          {STDIN_FILENO, POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}, {reading_.descriptor(), POLLIN, 0}};
      if (::poll(ready, 3, -1) < 0) continue;
      if (ready[1].revents != 0) take_signals();
      if (ready[2].revents != 0) take_look();
      if (ready[0].revents != 0) take_keys();
    }
    terminal_.reset();
    if (signal_ != 0) return die_like_child(signal_);
    // A look at a large program may take seconds: the user does not wait for its end.
    if (reading_.busy()) ::_exit(kExitFine);
    return kExitFine;
  }

 private:
  void take_signals() {
    for (const int number : signals_.taken()) {
      if (number == SIGWINCH) {
        terminal_->refresh();
      } else if (number == SIGCONT) {  // it was stopped by SIGSTOP: the shell has had the terminal
        terminal_->come_back();
      } else if (number == SIGTSTP) {
        terminal_->leave();
        TerminalSignals::let(SIGTSTP);
        terminal_->come_back();
      } else {
        signal_ = number;
      }
    }
  }

  void take_look() {
    std::optional<LiveLook> look = reading_.take();
    if (look) model_.add(std::move(*look));
  }

  void take_keys() {
    bool hung_up = false;
    for (const Key key : terminal_->keys(&hung_up)) {
      const TopRequest request = press_key(&state_, key, &model_);
      if (request.what == TopRequest::What::kQuit) ends_ = true;
      if (request.what == TopRequest::What::kSave) save(request.process);
      if (request.what == TopRequest::What::kAttach) attach(request.pid);
    }
    reading_.pause(state_.paused);
    if (hung_up) ends_ = true;
  }

  void save(const std::string& key) {
    for (const LiveProcess& process : model_.look().processes) {
      if (process.key != key || process.report == nullptr) continue;
      reading_.hold(true);  // it may close the dump of a process that has ended
      try {
        state_.message = "saved " + save_snapshot(process);
      } catch (const std::exception& error) {
        state_.message = "not saved: " + failure_text(error);
      }
      reading_.hold(false);
      return;
    }
    state_.message = "there is no dump to save";
  }

  // `culprit attach` has the terminal meanwhile, with its messages and questions.
  void attach(std::uint32_t pid) {
    reading_.hold(true);
    terminal_->leave();
    signals_.let_all(true);
    const ChildResult result = run_child({own_program(), "attach", std::to_string(pid)}, {});
    signals_.let_all(false);
    if (result.start_errno == 0) {
      std::cout << "\nculprit top: press enter to go on" << std::flush;
      wait_for_line();
    }
    terminal_->come_back();
    reading_.hold(false);
    reading_.look_now();
    const std::string process = "process " + std::to_string(pid);
    state_.message = result.start_errno != 0                         ? "culprit attach cannot be started"
                     : !result.signalled && result.code == kExitFine ? "attached to " + process
                                                                     : "not attached to " + process;
  }

  // The terminal gives whole lines now. A signal ends the wait.
  void wait_for_line() {
    pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}};
    while (::poll(ready, 2, -1) < 0) {
    }
    char line[256];
    if (ready[0].revents != 0 && ::read(STDIN_FILENO, line, sizeof(line)) <= 0) ends_ = true;
  }

  const TerminalSignals& signals_;
  std::unique_ptr<CursesTerminal> terminal_;
  TopState state_;
  LiveModel model_;
  bool ends_ = false;
  int signal_ = 0;
  ReadingThread reading_;  // last: it ends first
};

}  // namespace

std::optional<int> run_top_screen(const std::vector<std::string>& targets, double interval,
                                  const TopSettings& settings) {
  if (!CursesTerminal::is_possible()) return std::nullopt;
  LiveReader(targets).check_targets();
  const TerminalSignals signals;  // first: the reading thread inherits what is blocked
  std::unique_ptr<CursesTerminal> terminal = CursesTerminal::open();
  if (terminal == nullptr) return std::nullopt;
  // A line of the log would stand in the middle of the screen.
  if (::isatty(STDERR_FILENO) == 1) log::set_level(log::Level::kQuiet);
  return TopScreen(signals, std::move(terminal), targets, interval, settings).run();
}

}  // namespace culprit::report
