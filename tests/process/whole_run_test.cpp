// A gate is green only when the whole run was seen: processes that outlive the command, or that were started without
// the library, and time in which recording was off.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

namespace {

const char* const kQuiet = " </dev/null >/dev/null 2>&1 ";

std::vector<std::string> line(const std::string& text) { return {"/bin/sh", "-c", text}; }

std::string switched(const std::string& letters) { return subject_path("switched").string() + " " + letters; }

void check_run(const Run& run, int exit_code, const std::string& words = "") {
  INFO(run.err);
  CHECK(run.exit_code == exit_code);
  if (!words.empty()) CHECK(has(run.err, words));
  // The library in the program may say something before.
  if (exit_code == 4) CHECK((run.err.rfind("NOT KNOWN", 0) == 0 || contains(run.err, "\nNOT KNOWN")));
}

}  // namespace

TEST_CASE("a process with CUDA that outlives the command is not known", "[whole]") {
  const std::string behind = "sleep 2 | " + switched("a w") + " >/dev/null 2>&1 &";
  const TemporaryFolder folder;
  check_run(culprit_run({"--fail-on", "leaks", "--min-bytes", "1G", "--out", folder.file("%p.dump")}, line(behind)), 4,
            "runs on after the command");
  // Later, too.
  CHECK(run_culprit({"report", folder.path().string(), "--fail-on", "leaks", "--min-bytes", "1G"}).exit_code == 4);
  // It has ended, and its leak is known.
  check_run(culprit_run({"--fail-on", "leaks", "--wait", "30s"}, line(behind)), 1, "LEAKED 9.77 KiB");
  CHECK(culprit_run({"--wait", "soon"}, {"/bin/true"}).exit_code == 2);
}

TEST_CASE("a process without CUDA that outlives the command is counted", "[whole]") {
  const std::string free_null = subject_path("free_null").string();
  const std::string behind = std::string("sleep 2") + kQuiet + "& " + free_null;
  check_run(culprit_run({"--fail-on", "leaks"}, line(behind)), 0,
            "1 process went on after the command, without CUDA so far: ");
  const TemporaryFolder folder;
  check_run(culprit_run({"--require-complete", "--out", folder.file("%p.dump")}, line(behind)), 4, "went on after");
  CHECK(run_culprit({"report", folder.path().string(), "--fail-on", "leaks"}).exit_code == 0);
  CHECK(run_culprit({"report", folder.path().string(), "--require-complete"}).exit_code == 4);
  // One that ends a moment later, as Python's resource tracker does.
  const Run moment = culprit_run({"--require-complete"}, line(std::string("sleep 0.2") + kQuiet + "& " + free_null));
  check_run(moment, 0);
  CHECK_FALSE(has(moment.err, "went on after"));
}

TEST_CASE("a process of the shell that became culprit is not of the run", "[whole]") {
  if (on_gpu()) return;
  RunOptions options;
  options.environment["LD_LIBRARY_PATH"] = (culprit_path().parent_path() / "../simcuda").string();
  const std::string text = std::string("sleep 3") + kQuiet + "& exec " + culprit_path().string() +
                           " run --require-complete -- " + subject_path("free_null").string();
  const Finished run = run_program(line(text), options);
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK_FALSE(has(run.err, "went on after"));
}

TEST_CASE("a process that was started without the library is not known", "[whole]") {
  if (on_gpu()) return;
  const std::string free_null = subject_path("free_null").string();
  for (const char* wrapper : {"env -u LD_PRELOAD", "env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH"}) {
    INFO(wrapper);
    const std::string text = free_null + "; sleep 1 | " + wrapper + " " + switched("a w");
    check_run(culprit_run({"--fail-on", "leaks"}, line(text)), 4, "without libculprit.so");
  }
}

TEST_CASE("a process of another user is recorded, or not known", "[whole]") {
  if (on_gpu()) return;
  if (geteuid() != 0 || std::system("setpriv --version >/dev/null 2>&1") != 0) {
    WARN("skipped: needs root and setpriv");
    return;
  }
  const std::string as = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  check_run(culprit_run({"--fail-on", "leaks"}, line(as + subject_path("driver_leak_one").string())), 4,
            "no dump could be made");
  const TemporaryFolder open;
  fs::permissions(open.path(), fs::perms::all);
  check_run(culprit_run({"--fail-on", "leaks", "--out", open.file("%p.dump")},
                        line(as + subject_path("driver_leak_one").string())),
            1, "LEAKED 10.7 KiB");
}

TEST_CASE("a process whose recording was never switched on is not known", "[whole][switch]") {
  const std::string words = "called CUDA while recording was off";
  check_run(culprit_run({"--fail-on", "leaks", "--paused"}, {"switched", "a"}), 4, words);
  check_run(culprit_run({"--fail-on", "leaks"}, line("CULPRIT_START=signal " + switched("a"))), 4, words);
  RunOptions options;
  options.environment["CULPRIT_START"] = "signal";
  const TemporaryFolder folder;
  check_run(culprit_run({"--fail-on", "leaks", "--out", folder.file("%p.dump")},
                        line(switched("s a f") + "; " + switched("a")), options),
            4, words);
  CHECK(run_culprit({"report", folder.path().string(), "--fail-on", "leaks"}).exit_code == 4);
  // A program without CUDA waits for nothing.
  check_run(culprit_run({"--fail-on", "leaks", "--paused"}, {"/bin/true"}), 0);
}

TEST_CASE("the verdict on chosen spans says their share of the run", "[whole][switch]") {
  const TemporaryFolder folder;
  const Run run = culprit_run({"--fail-on", "leaks", "--paused", "--out", folder.file("%p.dump")},
                              {"switched", "a", "s", "a", "f", "f"});
  check_run(run, 0);
  CHECK(run.err.rfind("RECORDED IN PART: ", 0) == 0);
  CHECK(has(run.err, "in 1 span that the program or a signal chose: the verdict is of it"));
  check_run(culprit_run({"--require-complete", "--paused"}, {"switched", "a", "s", "a", "f", "f"}), 4, "1 span");
  for (const char* format : {"json", "markdown", "sarif", "html"}) {
    INFO(format);
    const Finished report = run_culprit({"report", folder.path().string(), "--format", format});
    CHECK(contains(report.out, "of the run was recorded"));
  }
  const std::string job = folder.file("job.json");
  REQUIRE(run_culprit({"merge", folder.path().string(), "-o", job}).exit_code == 0);
  CHECK(run_culprit({"report", job, "--require-complete"}).exit_code == 4);
  CHECK(run_culprit({"report", job, "--fail-on", "leaks"}).exit_code == 0);
}

TEST_CASE("a process without the mark of --since-mark is not left out", "[whole][marks]") {
  const std::string marked = subject_path("marked").string() + " marks";
  const std::string leaks = subject_path("driver_leak_one").string();
  // The first one leaks less than that.
  const Run run =
      culprit_run({"--since-mark", "epoch 2", "--min-bytes", "10K", "--fail-on", "leaks"}, line(marked + "; " + leaks));
  check_run(run, 1, "driver_leak_one.cpp");
  CHECK(has(run.err, "this process has no mark \"epoch 2\": all its memory counts"));
}

TEST_CASE("a device has one number", "[whole]") {
  for (const char* device : {"00", "01", "0x0", "-1", ""}) {
    INFO(device);
    CHECK(culprit_run({"--devices", device}, {"/bin/true"}).exit_code == 2);
  }
  check_run(culprit_run({"--fail-on", "leaks", "--devices", "0"}, {"driver_leak_one"}), 1);
}

TEST_CASE("a message of the library never ends a program whose stderr is a full file", "[whole]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("stderr");
  struct Row {
    int flags;
    std::size_t bytes;
  };
  // The last one is written behind its end: its size does not tell that it is full there.
  for (const Row& row : {Row{O_WRONLY | O_APPEND, 1 << 20}, Row{O_WRONLY, 1 << 20}, Row{O_WRONLY, 0}}) {
    std::ofstream(file) << std::string(row.bytes, 'x');
    RunOptions options;
    options.environment["CULPRIT_OUT"] = folder.file("%p.dump");
    options.before_exec = [&] {
      const int fd = open(file.c_str(), row.flags);
      lseek(fd, 1 << 20, SEEK_SET);
      dup2(fd, STDERR_FILENO);
      const rlimit mebibyte = {1 << 20, 1 << 20};
      setrlimit(RLIMIT_FSIZE, &mebibyte);
    };
    const Run run = run_preloaded("driver_leak_one", {}, options);
    CHECK(run.signal == 0);
    CHECK(run.exit_code == 0);
    CHECK(fs::file_size(file) == row.bytes);
  }
}

}  // namespace culprit::test
