// Long work is done in several steps, in each of which a thread is stopped for a short time: on the slots of many
// libraries, and on the memory of a large recording. A step may be the last one, because culprit was killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/run_program.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

namespace {

constexpr int kLibraries = 40;

void fill_with_libraries(const TemporaryFolder& folder) {
  for (int i = 0; i < kLibraries; ++i)
    fs::copy_file(subject_path("attach_plugin.so"), folder.path() / ("library" + std::to_string(i) + ".so"));
}

int count_of(const std::string& text, const std::string& words) {
  int count = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the slots of many libraries are replaced and put back in several steps", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder libraries;
  const TemporaryFolder folder;
  fill_with_libraries(libraries);
  const std::string dump = folder.file("x.dump");
  const Run run = run_alone("attach_many", {libraries.path()}, [&](pid_t pid) {
    const Finished attached = run_culprit({"-v", "attach", std::to_string(pid), "--out", dump});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    CHECK(count_of(attached.err, ": step 1,") >= 2);
    tell(pid, 1);
    const Finished detached = run_culprit({"-v", "detach", std::to_string(pid)});
    INFO(detached.err);
    CHECK(detached.exit_code == 0);
    CHECK(count_of(detached.err, ": step 1,") >= 1);
  });
  check_fine(run);
  const std::vector<Group> leaks = read_report(dump).through("leak_plugin");
  int count = 0;
  for (const Group& leak : leaks) count += static_cast<int>(leak.count);
  CHECK(count == kLibraries);
}

TEST_CASE("culprit killed between two steps leaves a process that can be attached again", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder libraries;
  const TemporaryFolder folder;
  fill_with_libraries(libraries);
  const std::string dump = folder.file("x.dump");
  int kills = 0;
  const Run run = run_alone("attach_many", {libraries.path()}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const int stride = on_gpu() ? 211 : 97;
    bool ended = false;
    for (int step = 1; !ended && kills < 60; step += stride) {
      const Finished attached =
          run_culprit({"attach", number, "--out", dump},
                      {{"LD_PRELOAD", subject_path("die_at_ptrace.so")}, {"DIE_AT", std::to_string(step)}});
      INFO("to be killed after step " << step << ": " << attached.err);
      check_runs_alone(pid);
      ended = attached.exit_code == 0;
      if (!ended) CHECK((contains(attached.err, "was killed") || contains(attached.err, "is attached already")));
      if (contains(attached.err, "was killed")) ++kills;
      if (contains(attached.err, "is attached already")) run_culprit({"detach", number});
    }
    CHECK(ended);
    tell(pid, 1);
    CHECK(run_culprit({"detach", number, "--timeout", "60s"}).exit_code == 0);
  });
  check_fine(run);
  CHECK(kills >= (on_gpu() ? 1 : 3));
}

TEST_CASE("an attach that a signal ends between two steps says so, and has undone them", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder libraries;
  const TemporaryFolder folder;
  fill_with_libraries(libraries);
  int interrupted = 0;
  const Run run = run_alone("attach_many", {libraries.path()}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    for (int i = 1; i <= 20; ++i) {
      const std::string line = culprit_path().string() + " attach " + number + " --out " + folder.file("x.%n.dump") +
                               " & p=$!; sleep 0." + (i < 10 ? "0" : "") + std::to_string(i) +
                               "; kill -TERM $p; wait $p";
      ProgramOptions options;
      options.environment = {{"LD_PRELOAD", ""}, {"NO_COLOR", "1"}, {"CULPRIT_LIBRARY", library_path().string()}};
      const Finished attached = run_program({"/bin/sh", "-c", line}, options);
      INFO("after " << i << "0 ms: exit code " << attached.exit_code << ", " << attached.err);
      check_runs_alone(pid);
      const bool ended = contains(attached.err, "interrupted;");
      CHECK((attached.exit_code == 0 || attached.exit_code == 128 + SIGTERM));
      // The signal may come before culprit has begun; the shell says "Terminated" then.
      CHECK((ended || attached.exit_code != 128 + SIGTERM || !contains(attached.err, "culprit")));
      CHECK(contains(attached.err, "attached to") == (attached.exit_code == 0));
      if (ended) ++interrupted;
      const Finished detached = run_culprit({"detach", number, "--timeout", "60s"});
      CHECK((detached.exit_code == 0) == (attached.exit_code == 0));
    }
  });
  check_fine(run);
  CHECK(interrupted >= 1);
}

TEST_CASE("a detach that is killed between two steps is gone on with by the next one", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder libraries;
  const TemporaryFolder folder;
  fill_with_libraries(libraries);
  int kills = 0;
  const Run run = run_alone("attach_many", {libraries.path()}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    for (int step = 20; kills < 8 && step < 4000; step += 61) {
      const std::string dump = folder.file(std::to_string(step) + ".dump");
      REQUIRE(run_culprit({"attach", number, "--out", dump, "--timeout", "60s"}).exit_code == 0);
      const Finished detached = run_culprit(
          {"detach", number}, {{"LD_PRELOAD", subject_path("die_at_ptrace.so")}, {"DIE_AT", std::to_string(step)}});
      INFO("to be killed after step " << step << ": " << detached.err);
      check_runs_alone(pid);
      if (detached.exit_code == 0) break;
      ++kills;
      const Finished again = run_culprit({"detach", number, "--timeout", "60s"});
      INFO(again.err);
      CHECK((again.exit_code == 0 || contains(again.err, "is not attached")));
    }
  });
  check_fine(run);
  CHECK(kills >= 1);
}

TEST_CASE("the memory of a large recording is given back in several steps", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  constexpr int kLeaks = 400000;
  const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    REQUIRE(run_culprit({"attach", number, "--out", dump}).exit_code == 0);
    for (int i = 0; i < kLeaks; i += 20000) tell(pid, 20000);
    const Finished detached = run_culprit({"-v", "detach", number});
    INFO(detached.err);
    CHECK(detached.exit_code == 0);
    CHECK(count_of(detached.err, ": step 3,") >= 2);
  });
  check_fine(run);
  const std::vector<Group> leaks = read_report(dump).through("leak_after");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == kLeaks);
}

}  // namespace culprit::test
