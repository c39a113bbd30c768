// culprit top: of a running process, and of a dump.
#include <unistd.h>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

Finished top(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"top"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_culprit(words);
}

}  // namespace

TEST_CASE("culprit top shows what a running process holds", "[top]") {
  RunOptions options;
  options.when_ready = [](pid_t pid) {
    const Finished once = top({std::to_string(pid)});
    INFO(once.err << once.out);
    CHECK(once.exit_code == 0);
    CHECK(has(once.out, "end_how live ["));
    CHECK(has(once.out, "] · running, "));
    CHECK(has(once.out, "\nGPU 0   10.7 KiB device (1x)\n"));
    CHECK(has(once.out, "\nBYTES      COUNT    WHERE\n10.7 KiB   1x       cudaMalloc  end_how.cpp:18  leak_here\n"));
    const Finished twice = top({std::to_string(pid), "--times", "2", "--interval", "0.1", "--group-by", "function"});
    CHECK(has(twice.out, "BYTES      COUNT    WHERE\n10.7 KiB   1x       leak_here\n"));
    CHECK(has(twice.out, "BYTES      CHANGE      COUNT    WHERE\n10.7 KiB               1x       leak_here\n"));
  };
  const Run run = run_preloaded("end_how", {"live"}, options);
  REQUIRE(run.exit_code == 9);
  // An ended process is shown once.
  const Finished ended = top({run.dump().string(), "--times", "5"});
  CHECK(ended.exit_code == 0);
  CHECK(has(ended.out, "] · exit, "));
  CHECK(ended.out.find("culprit top") == ended.out.rfind("culprit top"));
  const Finished mark = top({run_preloaded("marked", {"epochs"}).dump().string(), "--group-by", "mark", "--rows", "1"});
  CHECK(has(mark.out, "epoch 2\nand 2 more, 1.95 KiB: --rows\n"));
  CHECK(has(top({run_preloaded("free_null").dump().string()}).out, "(nothing is held)"));
  // Several targets, one below the other.
  const Finished both = top({run.dump().string(), run_preloaded("free_null").dump().string(), "--group-by", "line"});
  CHECK(has(both.out, "10.7 KiB   1x       end_how.cpp:18\n\nculprit top · "));
  CHECK(has(both.out, "(nothing is held)"));
}

TEST_CASE("culprit top ends with the process", "[top]") {
  for (const bool kept : {true, false}) {
    TemporaryFolder folder;
    const std::string out = (folder.path() / "pictures").string();
    RunOptions options;
    // Goes on while the program ends; `culprit run` removes the dump.
    options.when_ready = [&](pid_t pid) {
      const std::string look = culprit_path().string() + " top " + std::to_string(pid) + " --times 600 --interval 0.1";
      ProgramOptions shell;
      shell.environment = {{"LD_PRELOAD", ""}};
      run_program({"/bin/sh", "-c",
                   "(" + look + " >" + out + "; echo exit $? >>" + out + ") </dev/null >/dev/null 2>&1 &\n" +
                       "until grep -q leak_here " + out + " 2>/dev/null; do sleep 0.05; done"},
                  shell);
    };
    const Run run = kept ? run_preloaded("end_how", {"live"}, options) : culprit_run({}, {"end_how", "live"}, options);
    CHECK_FALSE(run.timed_out);
    const Finished waited =
        run_program({"/bin/sh", "-c", "until grep '^exit ' " + out + "; do sleep 0.05; done"}, ProgramOptions());
    CHECK(waited.out == "exit 0\n");
  }
}

TEST_CASE("culprit top says why it cannot look", "[top]") {
  CHECK(has(top({"999999999"}).err, "there is no process 999999999; of a process that has ended name the dump"));
  CHECK(has(top({std::to_string(getpid())}).err, "does not run under culprit: culprit attach"));
  CHECK(top({"/no/such/dump"}).exit_code == 3);
  CHECK(top({"x", "--interval", "0"}).exit_code == 2);
  RunOptions options;
  options.environment["CULPRIT_START"] = "signal";
  options.when_ready = [](pid_t pid) {
    CHECK(has(top({std::to_string(pid)}).err, "has recorded nothing yet: recording begins with its next CUDA"));
  };
  CHECK(run_preloaded("switched", {"w"}, options).exit_code == 0);
}

}  // namespace culprit::test
