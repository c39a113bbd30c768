// culprit run: the same programs, started by the command instead of by hand.
#include <signal.h>
#include <sys/wait.h>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

TEST_CASE("culprit run passes output and exit code through and reports on stderr", "[run]") {
  const Run run = culprit_run({}, {"leak_one"});
  INFO(run.err);
  CHECK(run.exit_code == 7);
  CHECK(run.out == "done\n");
  CHECK(has(run.err, "leak_here"));
  CHECK(has(run.err, "cudaMalloc"));
  CHECK(has(run.err, "leak_one.cpp:8"));
  CHECK_FALSE(has(run.err, "allocate_and_free"));
}

TEST_CASE("culprit run ends by the signal that ended the command", "[run]") {
  const Run run = culprit_run({}, {"end_how", "kill"});
  INFO(run.err);
  CHECK((run.signal == SIGKILL || run.exit_code == 128 + SIGKILL));
  CHECK(has(run.err, "leak_here"));
}

TEST_CASE("culprit run names the signal, and memory of a killed program is not called leaked", "[run]") {
  const std::pair<const char*, const char*> rows[] = {{"kill", "SIGKILL"}, {"segv", "SIGSEGV"}};
  for (const auto& [how, signal] : rows) {
    const Run run = culprit_run({"--fail-on", "leaks"}, {"end_how", how});
    INFO(run.err);
    CHECK(has(run.err, std::string(" · killed by ") + signal));
    CHECK(has(run.err, "LIVE WHEN KILLED 10.7 KiB in 1 allocation, 1 group"));
    CHECK(has(run.err, "NOT FREED YET"));
    CHECK_FALSE(has(run.err, "LEAKED"));
  }
}

TEST_CASE("culprit run forwards signals and standard input", "[run]") {
  RunOptions options;
  // Standard input is closed after this, which would end the program in another way.
  options.when_ready = [](pid_t pid) {
    kill(pid, SIGTERM);
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
  };
  const Run terminated = culprit_run({}, {"end_how", "live"}, options);
  INFO(terminated.err);
  CHECK((terminated.signal == SIGTERM || terminated.exit_code == 128 + SIGTERM));
  CHECK_FALSE(terminated.timed_out);
  CHECK(has(terminated.err, "leak_here"));

  options.when_ready = [](pid_t) {};  // standard input is closed after this
  const Run closed = culprit_run({}, {"end_how", "live"}, options);
  CHECK(closed.exit_code == 9);
}

TEST_CASE("culprit run reports every process that left a dump", "[run]") {
  const Run run = culprit_run({}, {"start_other", "spawn", subject_path("leak_one").string()});
  INFO(run.err);
  CHECK(run.exit_code == 7);
  CHECK(has(run.err, "leak_in_starter"));
  CHECK(has(run.err, "leak_here"));
}

}  // namespace culprit::test
