// Recording switched on and off by a signal and by culprit start and stop.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

RunOptions paused() {
  RunOptions options;
  options.environment["CULPRIT_START"] = "signal";
  return options;
}

}  // namespace

TEST_CASE("a process that waits for a signal records nothing before it", "[switch]") {
  const Run never = run_preloaded("switched", {"a", "a", "f"}, paused());
  CHECK(never.exit_code == 0);
  CHECK(never.dumps.empty());
  CHECK(never.err.empty());
  const Run run = run_preloaded("switched", {"a", "a", "s", "a", "f"}, paused());
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_bytes() == 10003);
  CHECK(report.json.at("summary").at("unknown_frees") == 1);
  CHECK(report.error_count() == 0);
}

TEST_CASE("recorded allocations are followed while recording is off", "[switch]") {
  // 10001 is freed while off, 10002 later, 10003 is made while off, 10004 after.
  const Run run = run_preloaded("switched", {"s", "a", "a", "s", "f", "a", "s", "a", "f", "f"}, paused());
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_bytes() == 10004);
  CHECK(report.json.at("summary").at("unknown_frees") == 1);
  CHECK(report.error_count() == 0);
  const nlohmann::json& recording = report.json.at("recording");
  CHECK(recording.at("state") == "on");
  REQUIRE(recording.at("spans").size() == 2);
  const nlohmann::json& first = recording.at("spans")[0];
  CHECK(first.at("begin_ns") == 0);
  CHECK(first.at("end_ns") <= recording.at("spans")[1].at("begin_ns"));
  CHECK(recording.at("spans")[1].at("end_ns").is_null());
  const std::string text = run_culprit({"report", run.dump().string()}).out;
  CHECK(has(text, "\nrecorded from 0.00 ms to "));
}

TEST_CASE("a balance says that recording was off for a part of the time", "[switch][balance]") {
  if (on_gpu()) return;
  RunOptions options = paused();
  options.environment["SIMCUDA_OWN_MEMORY"] = "1";
  const Run run = run_preloaded("switched", {"a", "s", "a"}, options);
  REQUIRE(run.exit_code == 0);
  const std::string text = run_culprit({"report", "--all", run.dump().string()}).out;
  INFO(text);
  CHECK(has(text, "   527 MiB    rest (not known)\n"));
  CHECK(has(text, "   recording was off for a part of the time: what the driver took then is in the rest\n"));
  const std::string always = run_culprit({"report", "--all", run_preloaded("switched", {"a"}).dump().string()}).out;
  CHECK_FALSE(has(always, "recording was off"));
}

TEST_CASE("the report says what was in use before recording began", "[switch]") {
  const Run late = run_preloaded("switched", {"a", "a", "s", "a"}, paused());
  const Run early = run_preloaded("switched", {"s", "a"}, paused());
  auto used = [](const Run& run) {
    return read_report(run.dump()).json.at("recording").at("spans")[0].at("used_bytes").get<std::uint64_t>();
  };
  // A GPU allocates memory in larger pieces, and other processes use it, too.
  if (!on_gpu()) CHECK(used(late) >= used(early) + 20003);
}

TEST_CASE("a refused free of unrecorded memory is no error while recording is off", "[switch]") {
  CHECK(read_report(run_preloaded("switched", {"s", "a", "s", "a", "f", "f", "d"}, paused()).dump()).error_count() ==
        0);
  CHECK(read_report(run_preloaded("switched", {"s", "a", "f", "d"}, paused()).dump()).error_count() == 1);
}

TEST_CASE("recording is switched wherever the signal interrupts the program", "[switch]") {
  RunOptions options = paused();
  options.timeout_seconds = 30;
  options.environment["CULPRIT_SIGNAL"] = "ALRM";
  options.environment["SIMCUDA_FREE_CALLS"] = "1";  // then most of the time is spent in the library
  const Run run = run_preloaded("switched_in_handler", {}, options);
  CHECK_FALSE(run.timed_out);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "done\n");
  CHECK(read_report(run.dump()).leaked_count() == 0);
}

TEST_CASE("a fork child begins as its parent stands", "[switch]") {
  if (skip_fork_child()) return;
  CHECK(run_preloaded("switched", {"s", "a", "s", "k"}, paused()).dumps.size() == 1);
  CHECK(run_preloaded("switched", {"s", "a", "k"}, paused()).dumps.size() == 2);
}

TEST_CASE("no signal is touched unless it is asked for", "[switch]") {
  const Run plain = run_preloaded("switched", {"a", "s"});
  CHECK(plain.signal == SIGUSR2);
  // The program's own handler stays, and recording stays off.
  const Run guest = run_preloaded("switched", {"g", "a", "s", "a"}, paused());
  CHECK(guest.out == "guest\n");
  CHECK(guest.dumps.empty());
  RunOptions other = paused();
  other.environment["CULPRIT_SIGNAL"] = "WINCH";
  CHECK(run_preloaded("switched", {"a", "s"}, other).signal == SIGUSR2);
}

TEST_CASE("a process that never uses CUDA keeps its signals", "[switch]") {
  // Also in a child of the shell.
  const std::string script = "grep -E 'Sig(Cgt|Ign)' /proc/self/status; kill -USR2 $$; echo survived";
  RunOptions with = paused();
  RunOptions without = paused();
  without.preload = false;
  const Run prepared = run_preloaded("/bin/sh", {"-c", script}, with);
  const Run plain = run_preloaded("/bin/sh", {"-c", script}, without);
  CHECK(prepared.signal == SIGUSR2);
  CHECK(has(prepared.out, "SigCgt"));
  CHECK(prepared.out == plain.out);
  CHECK(prepared.err.empty());
}

TEST_CASE("a program with the static runtime waits for the signal from its first CUDA call on", "[switch]") {
  RunOptions options = paused();
  options.when_ready = [](pid_t pid) {
    const Finished early = run_culprit({"start", std::to_string(pid)});
    CHECK(early.exit_code == 3);
    CHECK(has(early.err, "has not used CUDA yet"));
    CHECK(has(early.err, "try again then"));
    CHECK(kill(pid, 0) == 0);
  };
  // Neither the command nor a signal ended it: none was sent.
  const Run run = run_preloaded("switched_static", {"w", "a", "s", "a"}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(read_report(run.dump()).leaked_bytes() == 10002);
}

TEST_CASE("a signal that the program ignores stays ignored, and that is said", "[switch]") {
  RunOptions options = paused();
  options.before_exec = [] { signal(SIGUSR2, SIG_IGN); };
  const Run run = run_preloaded("switched", {"a", "s", "a"}, options);
  CHECK(run.exit_code == 0);
  CHECK(run.dumps.empty());
  CHECK(run.err ==
        "culprit: warning: signal USR2 is ignored: nothing is recorded, and no signal switches it on. Name another "
        "with CULPRIT_SIGNAL.\n");
  options.when_ready = [](pid_t pid) {
    const std::string advice = "ignores signal USR2: run it again with the name of another signal in CULPRIT_SIGNAL\n";
    for (const char* command : {"start", "stop", "top"}) {
      INFO(command);
      const Finished refused = run_culprit({command, std::to_string(pid)});
      CHECK(refused.exit_code == 3);
      CHECK(has(refused.err, advice));
    }
  };
  CHECK(run_preloaded("switched", {"a", "w"}, options).exit_code == 0);
  // The advice helps.
  options.environment["CULPRIT_SIGNAL"] = "WINCH";
  options.when_ready = [](pid_t pid) {
    CHECK(run_culprit({"start", std::to_string(pid)}).exit_code == 0);
    CHECK(has(run_culprit({"top", std::to_string(pid)}).err, "has recorded nothing yet"));
  };
  CHECK(read_report(run_preloaded("switched", {"a", "w", "a"}, options).dump()).leaked_bytes() == 10002);
}

TEST_CASE("a long value is cut between two characters", "[switch]") {
  RunOptions options = paused();
  std::string value;
  for (int i = 0; i < 30; ++i) value += "\u6f22";  // 3 bytes; 60 are shown of 1 + 90
  options.environment["CULPRIT_SIGNAL"] = "x" + value;
  const Run run = run_preloaded("switched", {"a"}, options);
  CHECK(run.err ==
        "culprit: warning: CULPRIT_SIGNAL=x" + value.substr(0, 57) + ": this signal cannot be used; USR2 is used\n");
}

TEST_CASE("a signal that cannot be used is refused, and its substitute is named", "[switch]") {
  for (const char* unusable : {"KILL", "STOP", "99", "0", "SIGSEGV", "SIGABRT", "32", "33", "NOPE"}) {
    INFO(unusable);
    RunOptions options = paused();
    options.environment["CULPRIT_SIGNAL"] = unusable;
    const Run run = run_preloaded("switched", {"a", "s", "a", "f", "f"}, options);
    CHECK(run.exit_code == 0);
    CHECK(run.dumps.size() == 1);
    CHECK(run.err ==
          std::string("culprit: warning: CULPRIT_SIGNAL=") + unusable + ": this signal cannot be used; USR2 is used\n");
    // In a program without CUDA nothing is said.
    CHECK(run_preloaded("/bin/sh", {"-c", "true"}, options).err.empty());
  }
}

TEST_CASE("a value that cannot be used is said once, in a process that records", "[options]") {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"CULPRIT_DEPTH=abc", "64"},    {"CULPRIT_DEPTH=100000", "64"},  {"CULPRIT_LOG=loud", "warn"},
      {"CULPRIT_SCAN=maybe", "exit"}, {"CULPRIT_SCAN_SECONDS=0", "2"}, {"CULPRIT_SCAN_BYTES=4", "4G"},
      {"CULPRIT_MAX_DUMP=1", "1G"},   {"CULPRIT_START=soon", "now"},   {"CULPRIT_FAIL=garbage", "no rule"},
      {"CULPRIT_QUIET=perhaps", "0"}, {"CULPRIT_PYTHON=x", "1"},
  };
  for (const auto& [variable, used] : values) {
    INFO(variable);
    RunOptions options;
    const std::size_t sign = variable.find('=');
    options.environment[variable.substr(0, sign)] = variable.substr(sign + 1);
    const std::string line = "culprit: warning: " + variable + ": this value cannot be used; " + used + " is used\n";
    CHECK(run_preloaded("switched", {"a", "f"}, options).err == line);
    CHECK(run_preloaded("/bin/sh", {"-c", "true"}, options).err.empty());
  }
  if (skip_fork_child()) return;
  RunOptions options;
  options.environment["CULPRIT_DEPTH"] = "abc";
  options.environment["CULPRIT_QUIET"] = "1";
  const Run forked = run_preloaded("switched", {"a", "k"}, options);
  CHECK(forked.dumps.size() == 2);
  CHECK(forked.err == "culprit: warning: CULPRIT_DEPTH=abc: this value cannot be used; 64 is used\n");
}

TEST_CASE("culprit start and stop switch a process and say so", "[switch]") {
  RunOptions options = paused();
  options.when_ready = [](pid_t pid) {
    const Finished start = run_culprit({"start", std::to_string(pid)});
    INFO(start.err);
    CHECK(start.exit_code == 0);
    CHECK(has(start.out, "records from its next CUDA call on"));
  };
  const Run run = run_preloaded("switched", {"a", "w", "a"}, options);
  CHECK(read_report(run.dump()).leaked_bytes() == 10002);

  options.when_ready = [](pid_t pid) {
    const std::string id = std::to_string(pid);
    // `start` a second time changes nothing.
    CHECK(has(run_culprit({"start", id}).out, "records now: "));
    CHECK(has(run_culprit({"start", id}).out, "records now: "));
    const Finished stop = run_culprit({"stop", id});
    CHECK(stop.exit_code == 0);
    CHECK(has(stop.out, "records nothing new now: "));
  };
  const Run stopped = run_preloaded("switched", {"s", "a", "w", "a", "f"}, options);
  const Report report = read_report(stopped.dump());
  CHECK(report.leaked_bytes() == 0);
  CHECK(report.json.at("recording").at("state") == "off");
}

TEST_CASE("culprit start says why a process cannot be switched", "[switch]") {
  CHECK(has(run_culprit({"start", "999999999"}).err, "there is no process 999999999"));
  CHECK(has(run_culprit({"start", std::to_string(getpid())}).err, "does not run under culprit: culprit attach"));
  CHECK(has(run_culprit({"stop", std::to_string(getpid())}).err, "does not run under culprit: nothing is recorded"));
  CHECK(run_culprit({"start", "x"}).exit_code == 2);
  RunOptions options;
  options.when_ready = [](pid_t pid) {
    const Finished start = run_culprit({"start", std::to_string(pid)});
    CHECK(start.exit_code == 3);
    CHECK(has(start.err, "culprit run --paused"));
  };
  CHECK(run_preloaded("switched", {"w"}, options).exit_code == 0);
}

TEST_CASE("a process that has ended and was not collected is said to have ended", "[switch]") {
  const pid_t zombie = fork();
  if (zombie == 0) _exit(0);
  siginfo_t ended = {};
  REQUIRE(waitid(P_PID, static_cast<id_t>(zombie), &ended, WEXITED | WNOWAIT) == 0);
  for (const char* command : {"start", "stop", "top", "attach", "detach"}) {
    INFO(command);
    const Finished refused = run_culprit({command, std::to_string(zombie)});
    CHECK(refused.exit_code == 3);
    CHECK(has(refused.err, "has ended"));
    CHECK_FALSE(has(refused.err, "culprit attach"));
  }
  waitpid(zombie, nullptr, 0);
}

TEST_CASE("culprit run --paused takes the pid of culprit run too", "[switch][run]") {
  RunOptions options;
  options.when_ready = [](pid_t pid) {
    const Finished start = run_culprit({"start", std::to_string(pid)});
    INFO(start.err);
    CHECK(start.exit_code == 0);
  };
  const Run run = culprit_run({"--paused"}, {"switched", "a", "w", "a"}, options);
  INFO(run.err);
  CHECK(has(run.err, "LEAKED 9.77 KiB in 1 allocation"));
  const Run never = culprit_run({"--paused"}, {"switched", "a"});
  CHECK(never.exit_code == 4);
  CHECK(has(never.err, "called CUDA while recording was off"));
}

}  // namespace culprit::test
