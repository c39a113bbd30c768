// The system calls of an attached program neither return early, nor late, nor with a part of what they should move.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <sstream>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// The processes of the subject attach_calls, one for each case.
std::vector<pid_t> cases_of(pid_t pid) {
  std::istringstream text(file_text("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"));
  std::vector<pid_t> result;
  for (pid_t child = 0; text >> child;) result.push_back(child);
  return result;
}

// Runs `culprit COMMAND PID...` for each process, all at the same time. Returns the sum of their exit codes; `said`
// receives their messages.
int run_for_each(const std::vector<pid_t>& processes, const std::string& command, const std::string& options,
                 const TemporaryFolder& folder, std::string* said) {
  std::string script = "cd " + std::string(folder.path()) + "; ";
  for (const pid_t process : processes) {
    const std::string number = std::to_string(process);
    script += "(" + culprit_path().string() + " " + command + " " + number + " " + options + " >/dev/null 2>" +
              command + "." + number + "; echo $? >exit." + number + ") & ";
  }
  ProgramOptions environment;
  environment.environment = {{"LD_PRELOAD", ""}, {"CULPRIT_LIBRARY", library_path().string()}};
  environment.timeout_seconds = 60;
  run_program({"/bin/sh", "-c", script + "wait"}, environment);
  int sum = 0;
  said->clear();
  for (const pid_t process : processes) {
    const std::string code = file_text(folder.path() / ("exit." + std::to_string(process)));
    sum += code.empty() ? 1000 : std::atoi(code.c_str());
    *said += file_text(folder.path() / (command + "." + std::to_string(process)));
  }
  return sum;
}

const std::vector<std::string> kNotToBeStopped = {
    "epoll_timed",      "epoll_pwait2",  "sigtimedwait", "read_timed", "readv_timed",   "recv_timed",   "recvmsg_timed",
    "accept_timed",     "connect_timed", "write_timed",  "send_timed", "semtimedop",    "io_getevents", "write_part",
    "pselect_constant", "send_part",     "recv_part",    "low_water",  "io_uring_enter"};
const std::vector<std::string> kContinued = {
    "futex_of_many", "queue_until", "msgrcv", "flock",   "nanosleep",  "clock_nanosleep", "clock_nanosleep_until",
    "poll",          "ppoll",       "select", "pselect", "futex",      "futex_until",     "futex_endless",
    "read_pipe",     "read_socket", "recv",   "recvmsg", "read_event", "read_timer",      "read_terminal",
    "epoll",         "accept",      "wait4",  "pause"};

std::vector<std::string> with(const std::string& helper, const std::string& seconds,
                              const std::vector<std::string>& cases) {
  std::vector<std::string> arguments = {helper, seconds};
  arguments.insert(arguments.end(), cases.begin(), cases.end());
  return arguments;
}

// In milliseconds, as the command tells it.
long longest_stop(const std::string& said) {
  const std::string before = "stopped for at most ";
  const std::size_t at = said.find(before);
  REQUIRE(at != std::string::npos);
  std::istringstream text(said.substr(at + before.size()));
  double number = 0;
  std::string unit;
  text >> number >> unit;
  return static_cast<long>(unit.substr(0, 2) == "ms" ? number : unit[0] == 's' ? number * 1000 : 0);
}

}  // namespace

TEST_CASE("a thread in a call that a stop would be seen in is not stopped", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_calls", with("helper", "6", kNotToBeStopped), [&](pid_t pid) {
    const std::vector<pid_t> processes = cases_of(pid);
    REQUIRE(processes.size() == kNotToBeStopped.size());
    usleep(1500000);  // the calls with a time-out would begin anew
    std::string said;
    const int attached = run_for_each(processes, "attach", "", folder, &said);
    INFO(said);
    CHECK(attached == 0);
    const int detached = run_for_each(processes, "detach", "", folder, &said);
    INFO(said);
    CHECK(detached == 0);
  });
  check_fine(run);
}

TEST_CASE("a program whose only thread is in such a call is left alone", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_calls", with("alone", "3", kNotToBeStopped), [&](pid_t pid) {
    const std::vector<pid_t> processes = cases_of(pid);
    REQUIRE(processes.size() == kNotToBeStopped.size());
    usleep(1500000);
    std::string said;
    const int attached = run_for_each(processes, "attach", "--timeout 300ms", folder, &said);
    INFO(said);
    CHECK(attached == 3 * static_cast<int>(kNotToBeStopped.size()));
    CHECK(has(said, "came to a point where a call can be injected"));
    CHECK(has(said, "in epoll_wait, which "));
    CHECK(has(said, "in write, which "));
    for (const pid_t process : processes) check_runs_alone(process);
  });
  check_fine(run);
}

TEST_CASE("a thread in a call that continues after a stop is borrowed", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_calls", with("alone", "5", kContinued), [&](pid_t pid) {
    const std::vector<pid_t> processes = cases_of(pid);
    REQUIRE(processes.size() == kContinued.size());
    std::string said;
    const int attached = run_for_each(processes, "attach", "", folder, &said);
    INFO(said);
    CHECK(attached == 0);
    run_for_each(processes, "detach", "", folder, &said);  // some may have ended on a busy machine
  });
  check_fine(run);
}

// After a dlopen(), and after a call of the library, a thread waits for 0.2 s to be taken out of it, and then goes on
// with its own work.
TEST_CASE("a thread that was not taken out of a call in time has resumed its work", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::map<std::string, std::string> late = {{"LD_PRELOAD", subject_path("late_tracer.so").string()},
                                                   {"FINISHED_MS", "400"}};
  for (const std::string kind : {"computing", "waiting", "in turn", "short"}) {
    INFO(kind);
    const bool of_neighbours = kind == "in turn" || kind == "short";  // "short": it has ended since
    const Run run = run_alone(of_neighbours ? "attach_neighbours" : "attach_target", {kind}, [&](pid_t pid) {
      const std::string number = std::to_string(pid);
      const Finished attached =
          run_culprit({"attach", number, "--out", folder.file("x" + kind), "--timeout", "60s"}, late);
      INFO(attached.err);
      CHECK(attached.exit_code == 0);
      CHECK(longest_stop(attached.err) < 400);  // it does its own work after 200
      check_runs_alone(pid);
      const Finished detached = run_culprit({"detach", number, "--timeout", "60s"}, late);
      INFO(detached.err);
      CHECK(detached.exit_code == 0);
      check_runs_alone(pid);
    });
    check_fine(run);
  }
}

// As on a machine that stood still meanwhile.
TEST_CASE("a thread that is restored late is no program that has ended", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_target", {"apart"}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const Finished attached =
        run_culprit({"attach", number, "--out", folder.file("x.dump"), "--timeout", "60s"},
                    {{"LD_PRELOAD", subject_path("late_tracer.so").string()}, {"BACK_MS", "600"}});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    check_runs_alone(pid);
    CHECK(run_culprit({"detach", number}).exit_code == 0);
  });
  check_fine(run);
}

TEST_CASE("a thread near the end of its stack, or on another one, is not written to", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  for (const std::string kind : {"stacks", "alternate"}) {
    INFO(kind);
    const Run run = run_alone("attach_neighbours", {kind}, [&](pid_t pid) {
      const std::string number = std::to_string(pid);
      const Finished attached = run_culprit({"attach", number, "--out", folder.file(kind)});
      INFO(attached.err);
      CHECK(attached.exit_code == 0);
      CHECK(has(attached.err, "; its threads were stopped for at most "));
      CHECK(run_culprit({"detach", number}).exit_code == 0);
    });
    check_fine(run);
  }
}

// libc makes each thread do it, and keeps a lock meanwhile that dlopen() takes.
TEST_CASE("a program that changes its user meanwhile is not left in a deadlock", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    const Run run = run_alone("attach_neighbours", {"users"}, [&](pid_t pid) {
      attach_and_detach(pid, folder.file(std::to_string(i) + ".dump"));
      check_runs_alone(pid);
    });
    check_fine(run);
  }
}

TEST_CASE("a thread in vfork returns when its child ends, also during an attach", "[attach]") {
  if (!may_trace()) return;
  const std::string library = subject_path("attach_slow_library.so").string();
  const Run run = run_alone("attach_neighbours", {"vfork", library}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--timeout", "6s"});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
  });
  check_fine(run);
}

}  // namespace culprit::test
