// A lack of memory in any command, at any of its requests, is a message and an exit code: no abort, no crash, no
// silence.
#include <signal.h>

#include <algorithm>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

constexpr int kExitOfProgram = 7;

// Runs the command so that memory is gone from request `from` on; 0: never.
Finished run_without_memory(const std::vector<std::string>& words, long from, const std::string& folder) {
  ProgramOptions options;
  options.environment = {{"CULPRIT_LIBRARY", library_path().string()},
                         {"CULPRIT_OUT", ""},
                         {"NO_COLOR", "1"},
                         {"TMPDIR", folder},
                         {"DEBUGINFOD_URLS", ""},
                         {"FAIL_FROM", std::to_string(from)},
                         {"LD_PRELOAD", subject_path("fail_malloc.so").string()}};
  if (!on_gpu()) options.environment["LD_LIBRARY_PATH"] = simulated_driver_folder().string();
  std::vector<std::string> line = {culprit_path().string()};
  line.insert(line.end(), words.begin(), words.end());
  return run_program(line, options);
}

// Fewer and fewer requests fail, until the command does not notice.
void try_all(const std::vector<std::string>& words, long steps = 6) {
  TemporaryFolder folder;
  const Finished enough = run_without_memory(words, 0, folder.path().string());
  INFO(words[0] << ": " << enough.err);
  REQUIRE(enough.signal == 0);
  if (words[0] == "run") REQUIRE(contains(enough.out, "done"));
  long from = 1;
  long failures = 0;
  for (;; from += 1 + from / steps) {
    const Finished one = run_without_memory(words, from, folder.path().string());
    INFO("request " << from << ": exit code " << one.exit_code << ", signal " << one.signal << "\n" << one.err);
    CHECK(one.signal == 0);
    CHECK_FALSE(one.timed_out);
    if (words[0] == "run" && contains(one.out, "done")) CHECK(one.exit_code == kExitOfProgram);
    CHECK_FALSE(has(one.err + "-", "terminate called"));
    if (one.exit_code == enough.exit_code && !contains(one.err, "memory")) break;
    REQUIRE(from < 10000000);
    ++failures;
    // 126: the program was not started for that reason. The program's own exit code comes first.
    CHECK((one.exit_code == 3 || one.exit_code == 126 || one.exit_code == kExitOfProgram));
    CHECK(has(one.err, "memory"));
  }
  CHECK(failures > 5);
}

}  // namespace

TEST_CASE("a lack of memory is an error message in each command", "[memory]") {
  TemporaryFolder folder;
  const std::string dump = folder.file("a.dump");
  REQUIRE(culprit_run({"--out", dump}, {"driver_leak_one"}).exit_code == 0);
  SECTION("run") { try_all({"run", "--", subject_path("leak_one").string()}, 20); }
  SECTION("sweep") { try_all({"sweep", "--", subject_path("sweep_target").string(), "clean"}); }
  SECTION("report") { try_all({"report", dump}); }
  SECTION("diff") { try_all({"diff", dump, dump}); }
  SECTION("merge") { try_all({"merge", dump, "-o", folder.file("job.json")}); }
  SECTION("top") { try_all({"top", dump}); }
  SECTION("doctor") { try_all({"doctor"}); }
}

TEST_CASE("a lack of memory while a program runs leaves it its exit code", "[memory]") {
  TemporaryFolder folder;
  const std::vector<std::string> words = {"run", "--", "/bin/sh", "-c",
                                          subject_path("leak_one").string() + "; sleep 0.1; exit 7"};
  const auto run_from = [&](long from) { return run_without_memory(words, from, folder.path().string()); };
  long fails = 1;  // the program is not started
  long runs = 100000;
  while (runs - fails > 1) {
    const long from = fails + (runs - fails) / 2;
    (contains(run_from(from).out, "done") ? runs : fails) = from;
  }
  long watched = 0;  // the number of requests before the start differs a little from run to run
  for (long from = runs; from < runs + 120; from += 5) {
    const Finished one = run_from(from);
    INFO("request " << from << ": exit code " << one.exit_code << ", signal " << one.signal << "\n" << one.err);
    CHECK(one.signal == 0);
    CHECK(has(one.err, "memory"));
    if (!contains(one.out, "done")) continue;
    CHECK(one.exit_code == kExitOfProgram);
    ++watched;
  }
  CHECK(watched > 10);
}

TEST_CASE("a lack of memory in attach is an error message, and the process runs on", "[memory][attach]") {
  RunOptions options;
  options.preload = false;
  options.timeout_seconds = 110;
  options.when_ready = [](pid_t pid) {
    const std::string number = std::to_string(pid);
    TemporaryFolder folder;
    const std::vector<std::string> words = {"attach", number, "--for", "10ms", "--out", folder.file("x.dump")};
    if (run_without_memory(words, 0, folder.path().string()).exit_code != 0) {
      WARN("skipped: this machine does not allow ptrace");
      return;
    }
    long failures = 0;
    // The child process that works on the other process begins late.
    for (long from = 1;; from += 1 + std::min(from / 6, 300L)) {
      fs::remove(folder.file("x.dump"));
      Finished one = run_without_memory(words, from, folder.path().string());
      // A detach may find nothing to end while an attach whose command has ended is still under way in the process.
      for (int tries = 0; tries < 20 && contains(one.err, "is attached already"); ++tries) {
        run_culprit({"detach", number});
        one = run_without_memory(words, from, folder.path().string());
      }
      INFO("request " << from << ": exit code " << one.exit_code << ", signal " << one.signal << "\n" << one.err);
      CHECK(one.signal == 0);
      CHECK(kill(pid, 0) == 0);
      if (one.exit_code == 0) break;
      ++failures;
      CHECK((one.exit_code == 3 || one.exit_code == 127));
      CHECK(has(one.err, "memory"));
      run_culprit({"detach", number});  // when memory was short after the attach
    }
    CHECK(failures > 5);
  };
  const Run run = run_preloaded("attach_target", {"waiting"}, options);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "ready\nfine\n");
}

}  // namespace culprit::test
