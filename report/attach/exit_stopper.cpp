#include "report/attach/exit_stopper.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "interpose/format/exit_stops.h"
#include "report/attach/hurry.h"
#include "report/attach/other_threads.h"
#include "report/attach/registers.h"
#include "report/attach/safe_point.h"
#include "report/attach/stop_waiter.h"
#include "report/attach/traced_process.h"
#include "report/base/forked_child.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

using format::ExitStop;
using format::ExitStops;
using State = format::ExitStopState;
using std::chrono::milliseconds;

constexpr milliseconds kLongestTries{1000};
constexpr milliseconds kPauseAfterTry{20};

// The process that has the place, as long as it lives.
bool is_there(const ExitStop& place, std::uint32_t pid) {
  const std::optional<ProcessStat> stat = ProcessFolder("/proc", std::uint64_t{pid}).stat();
  return stat && !stat->has_ended() && stat->start_ticks == place.start_ticks;
}

// One request.
class Stop {
 public:
  // Each value that the process may change meanwhile is read once.
  Stop(ExitStop* place, std::uint32_t pid)
      : place_(*place),
        pid_(pid),
        thread_(static_cast<pid_t>(place->thread)),
        words_(place->words),
        room_(place->room),
        longest_(std::min<std::uint32_t>(place->longest_ms, 600000)) {}

  milliseconds longest() const { return longest_; }

  // Serves it. Throws AttachError.
  void serve() const {
    if (!can_inject()) throw AttachError("threads can be stopped on x86-64 only");
    const TracedProcess process(static_cast<pid_t>(pid_));
    if (!is_there(place_, pid_)) throw AttachError("it is another process");
    const Hurry hurry;
    SafePointFinder finder(process);
    StopWaiter waiter(process);
    const Deadline end = after(kLongestTries);
    while (state_of(place_) == State::kAsked &&
           !hold(process, &finder, &waiter, std::chrono::steady_clock::now() > end))
      waiter.pause(kPauseAfterTry);
  }

 private:
  // Returns whether the request has ended. `last`: it is the last try.
  bool hold(const TracedProcess& process, SafePointFinder* finder, StopWaiter* waiter, bool last) const {
    OtherThreads others(process, thread_, finder, waiter);
    if (!others.stop_all()) {
      if (last) throw AttachError(others.where());
      return false;
    }
    const std::vector<std::uint64_t> words = others.words();
    if (words.size() > room_) throw AttachError("it has started more threads meanwhile");
    if (!process.write_memory(words_, words.data(), words.size() * sizeof(words[0])))
      throw AttachError(std::string("its memory cannot be written: ") + std::strerror(errno));
    place_.count = words.size();
    if (!change_state(&place_, State::kAsked, State::kHeld)) return true;
    const Deadline end = after(longest_);
    while (state_of(place_) == State::kHeld && std::chrono::steady_clock::now() < end && process.is_alive())
      waiter->pause(milliseconds(1));
    change_state(&place_, State::kSearched, State::kConfirmed);
    return true;
  }

  ExitStop& place_;
  const std::uint32_t pid_;
  const pid_t thread_;
  const std::uint64_t words_, room_;
  const milliseconds longest_;
};

class Stopping {
 public:
  explicit Stopping(ExitStops* stops) : stops_(*stops) {}

  [[noreturn]] void go_on() {
    constexpr timespec kPause = {1, 0};
    stops_.pid_namespace = own_pid_namespace("/proc");
    __atomic_store_n(&stops_.helper, static_cast<std::uint32_t>(::getpid()), __ATOMIC_RELEASE);
    while (true) {
      const std::uint32_t calls = __atomic_load_n(&stops_.calls, __ATOMIC_ACQUIRE);
      for (ExitStop& place : stops_.places) look_at(&place);
      ::syscall(SYS_futex, &stops_.calls, FUTEX_WAIT, calls, &kPause, nullptr, 0);
    }
  }

 private:
  static void look_at(ExitStop* place) {
    const std::uint32_t pid = __atomic_load_n(&place->pid, __ATOMIC_ACQUIRE);
    if (pid == 0) return;
    if (state_of(*place) == State::kAsked) serve(place, pid);
    const State state = state_of(*place);
    if (state == State::kNone || (state != State::kEnded && is_there(*place, pid))) return;
    __atomic_store_n(&place->state, static_cast<std::uint32_t>(State::kNone), __ATOMIC_RELAXED);
    __atomic_store_n(&place->pid, 0U, __ATOMIC_RELEASE);
  }

  // In a process of its own: its end lets all threads go, also those that stop late.
  static void serve(ExitStop* place, std::uint32_t pid) {
    const Stop stop(place, pid);
    const ForkedChild tracer = fork_child([&](int) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        stop.serve();
      } catch (const std::exception& error) {
        refuse(place, error.what());
      }
    });
    const Deadline end = after(stop.longest() + kLongestTries + kLongestTries);
    while (tracer.pid > 0 && ::waitpid(tracer.pid, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > end) ::kill(tracer.pid, SIGKILL);
      ::usleep(1000);
    }
    refuse(place, "the process that stops threads has ended");
  }

  // Without effect if it was served.
  static void refuse(ExitStop* place, const char* why) {
    if (state_of(*place) != State::kAsked) return;
    std::strncpy(place->why, why, sizeof(place->why) - 1);
    change_state(place, State::kAsked, State::kRefused);
  }

  ExitStops& stops_;
};

}  // namespace

ExitStopper::ExitStopper(const std::string& run_starts) {
  helper_.start_with_file<ExitStops>(run_starts, format::kExitStopsEnding, format::kExitStopsVersion,
                                     "threads cannot be stopped at exit",
                                     [](ExitStops* stops) { Stopping(stops).go_on(); });
}

}  // namespace culprit::report
