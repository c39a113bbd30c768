// What `culprit attach --for`, `start`, `stop` and `top` say about an attached process, and how they end.
#include <signal.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

TEST_CASE("attach --for shows what survived and by which line", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.path() / "x.dump";
  const fs::path out = folder.path() / "out";
  const fs::path err = folder.path() / "err";
  const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
    // Ctrl-C ends it early: the test does not wait for time to pass.
    const std::string command = culprit_path().string() + " attach " + std::to_string(pid) + " --for 1h --out " + dump +
                                " >" + out.string() + " 2>" + err.string() + " & echo $!";
    ProgramOptions options;
    options.environment = {{"LD_PRELOAD", ""}, {"NO_COLOR", "1"}, {"CULPRIT_LIBRARY", library_path().string()}};
    // A job in the background of a shell without job control ignores SIGINT.
    const pid_t attacher = static_cast<pid_t>(std::stol(run_program({"/bin/sh", "-c", command}, options).out));
    for (int i = 0; i < 20000 && !contains(file_text(err), "recording for"); ++i) usleep(1000);
    tell(pid, 3);
    kill(attacher, SIGTERM);
    for (int i = 0; i < 20000 && !contains(file_text(out), "next"); ++i) usleep(1000);
    check_runs_alone(pid);
  });
  check_fine(run);
  const std::string text = file_text(out);
  INFO(text << file_text(err));
  CHECK(has(text, "\nSURVIVORS "));
  CHECK_FALSE(has(text, "LEAKED"));
  CHECK(has(text, "58.6 KiB  3x"));
  CHECK(has(text, "attach_target.cpp"));
  CHECK(has(text, "/min"));
  CHECK(has(text, "leak_after"));
  CHECK_FALSE(has(text, "leak_before"));
}

TEST_CASE("attach --for obeys --fail-on and --error-exitcode", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
    const auto attach = [&](const std::vector<std::string>& options, const std::string& orders) {
      fs::remove(folder.file("x.dump"));
      const std::string err = folder.file("err");
      std::string line =
          culprit_path().string() + " attach " + std::to_string(pid) + " --for 2s --out " + folder.file("x.dump");
      for (const std::string& option : options) line += " " + option;
      ProgramOptions shell;
      shell.environment = {{"LD_PRELOAD", ""}, {"NO_COLOR", "1"}, {"CULPRIT_LIBRARY", library_path().string()}};
      const std::string script = "rm -f " + err + "; (" + line + " >/dev/null 2>" + err + "; echo exit $? >" +
                                 folder.file("code") + ") </dev/null >/dev/null 2>&1 &";
      fs::remove(folder.file("code"));
      run_program({"/bin/sh", "-c", script}, shell);
      for (int i = 0; i < 20000 && !contains(file_text(err), "recording for"); ++i) usleep(1000);
      tell(pid, orders);
      for (int i = 0; i < 20000 && !contains(file_text(folder.file("code")), "\n"); ++i) usleep(1000);
      return file_text(folder.file("code"));
    };
    CHECK(attach({"--fail-on", "leaks"}, "x") == "exit 1\n");
    CHECK(attach({"--error-exitcode", "9"}, "x") == "exit 9\n");
    CHECK(attach({"--fail-on", "errors"}, "x") == "exit 0\n");
    // There is no baseline to compare with: such a gate would always be green.
    CHECK(run_culprit({"attach", std::to_string(pid), "--for", "1s", "--fail-on", "new"}).exit_code == 2);
  });
  check_fine(run);
}

TEST_CASE("memory of an attached process that runs on has survived and is leaked once the process has exited",
          "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.path() / "x.dump";
  const auto headline = [&] {
    // Other threads of the program have memory, too, at some times.
    const std::string text = run_culprit({"report", dump}).out;
    CHECK(has(text, "58.6 KiB  3x  cudaMalloc"));
    for (const std::string word : {"SURVIVORS", "LEAKED", "LIVE WHEN KILLED", "STILL HELD"}) {
      if (contains(text, "\n" + word + " ")) return word;
    }
    return std::string();
  };
  for (const bool detached : {true, false}) {
    INFO(detached);
    const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
      const std::string number = std::to_string(pid);
      CHECK(run_culprit({"attach", number, "--out", dump}).exit_code == 0);
      tell(pid, 3);
      CHECK(headline() == "SURVIVORS");
      CHECK(run_culprit({"report", dump, "--fail-on", "leaks"}).exit_code == 1);
      if (detached) CHECK(run_culprit({"detach", number}).exit_code == 0);
      if (detached) CHECK(headline() == "SURVIVORS");
    });
    check_fine(run);
    CHECK(headline() == (detached ? "SURVIVORS" : "LEAKED"));
    fs::remove(dump);
  }
}

TEST_CASE("attach --for of a process that ends meanwhile says how it ended and LEAKED", "[attach]") {
  if (!may_trace()) return;
  for (const bool killed : {false, true}) {
    INFO(killed);
    const TemporaryFolder folder;
    const std::string out = folder.file("out");
    const std::string err = folder.file("err");
    const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
      const std::string command = culprit_path().string() + " attach " + std::to_string(pid) + " --for 1h --out " +
                                  folder.file("x.dump") + " >" + out + " 2>" + err + " &";
      ProgramOptions options;
      options.environment = {{"LD_PRELOAD", ""}, {"NO_COLOR", "1"}, {"CULPRIT_LIBRARY", library_path().string()}};
      run_program({"/bin/sh", "-c", command}, options);
      for (int i = 0; i < 20000 && !contains(file_text(err), "recording for"); ++i) usleep(1000);
      tell(pid, 3);
      if (killed) kill(pid, SIGKILL);
    });
    for (int i = 0; i < 20000 && !contains(file_text(out), "next"); ++i) usleep(1000);
    const std::string text = file_text(out);
    INFO(text << file_text(err));
    // As long as the killed process is a zombie the signal is known.
    const bool zombie = has(text, " · killed by SIGKILL\n");
    CHECK(has(text, zombie ? "\nLIVE WHEN KILLED " : killed ? "\nLIVE AT THE END " : "\nLEAKED "));
    CHECK(has(text, "58.6 KiB  3x"));
    if (!zombie) CHECK(has(text, killed ? " · end unknown\n" : " · exit 0\n"));
    CHECK_FALSE(has(text, "SURVIVORS"));
    CHECK(has(file_text(err), "note    the process has ended"));
    CHECK(run.signal == (killed ? SIGKILL : 0));
  }
}

TEST_CASE("start and stop and top say what helps with a process that was attached or detached", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const auto refused = [&](const char* command, const std::string& because) {
      const Finished finished = run_culprit({command, number});
      INFO(command << finished.err);
      CHECK(finished.exit_code == 3);
      CHECK(has(finished.err, because));
    };
    refused("start", "does not run under culprit: culprit attach " + number + " begins to record in it");
    refused("stop", "does not run under culprit: nothing is recorded");
    refused("top", "does not run under culprit: culprit attach " + number);
    REQUIRE(run_culprit({"attach", number, "--out", folder.file("first.dump")}).exit_code == 0);
    tell(pid, 3);
    refused("start", "is recorded already, by culprit attach");
    refused("stop", "is recorded by culprit attach: culprit detach " + number);
    CHECK(has(run_culprit({"top", number}).out, "58.6 KiB   3x"));
    REQUIRE(run_culprit({"detach", number}).exit_code == 0);  // as `stop` advises
    refused("stop", "was detached: nothing is recorded");
    refused("start", "was detached: culprit attach " + number + " records again");
    refused("top", "was detached, and records nothing: culprit attach " + number + " records again");
    CHECK(has(run_culprit({"top", folder.file("first.dump")}).out, "58.6 KiB   3x"));
    REQUIRE(run_culprit({"attach", number, "--out", folder.file("second.dump")}).exit_code == 0);  // as `start` advises
    tell(pid, 1);
    CHECK(has(run_culprit({"top", number}).out, "19.5 KiB   1x"));
    CHECK(run_culprit({"detach", number}).exit_code == 0);
  });
  check_fine(run);
}

}  // namespace culprit::test
