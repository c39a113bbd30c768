// A gate is green only when everything was recorded; else it says "NOT KNOWN", the true reason, and ends with 4.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

namespace {

// A small file system; nullptr where there is no right to mount one.
std::shared_ptr<TemporaryFolder> small_disk(const char* size) {
  const std::shared_ptr<TemporaryFolder> folder(new TemporaryFolder, [](TemporaryFolder* one) {
    static_cast<void>(std::system(("umount " + one->path().string() + " 2>/dev/null").c_str()));
    delete one;
  });
  const std::string command = std::string("mount -t tmpfs -o mode=777,size=") + size + " culprit-test " +
                              folder->path().string() + " 2>/dev/null";
  if (std::system(command.c_str()) == 0) return folder;
  WARN("skipped: no right to mount a small tmpfs");
  return nullptr;
}

void check_not_known(const Run& run, const std::string& reason) {
  INFO(run.err);
  CHECK(run.exit_code == 4);
  CHECK(has(run.err, "NOT KNOWN: "));
  CHECK(has(run.err, reason));
  CHECK_FALSE(has(run.err, "NOTHING LEAKED"));
}

}  // namespace

TEST_CASE("a gate is not green when the disk was full, whatever gate it is", "[verdict]") {
  const std::vector<std::vector<std::string>> gates = {
      {"--fail-on", "leaks"}, {"--fail-on", "errors"}, {"--fail-on", "resources"}, {"--error-exitcode", "9"}};
  for (const std::vector<std::string>& gate : gates) {
    const auto disk = small_disk("1m");
    if (disk == nullptr) return;
    std::vector<std::string> options = gate;
    options.insert(options.end(), {"--out", disk->file("%p.dump"), "--min-bytes", "1G"});
    check_not_known(culprit_run(options, {"many_live", "50000", "4"}), "No space left on device");
  }
  // Without a gate the verdict is said, and the exit code is the program's.
  const auto disk = small_disk("1m");
  if (disk == nullptr) return;
  const Run asked_nothing = culprit_run({"--out", disk->file("%p.dump")}, {"many_live", "50000", "4"});
  CHECK(asked_nothing.exit_code == 0);
  CHECK(has(asked_nothing.err, "NOT KNOWN"));
}

TEST_CASE("a gate that fails by the recorded part ends with 1, complete or not", "[verdict]") {
  const auto disk = small_disk("3m");
  if (disk == nullptr) return;
  const Run run = culprit_run({"--fail-on", "leaks", "--out", disk->file("%p.dump")}, {"many_live", "100000", "4"});
  INFO(run.err);
  CHECK(run.exit_code == 1);
  CHECK(has(run.err, "NOT KNOWN what else"));
}

TEST_CASE("a file size limit makes a gate not known, and names the limit", "[verdict]") {
  RunOptions options;
  options.before_exec = [] {
    const rlimit half_a_mebibyte = {1 << 19, 1 << 19};
    setrlimit(RLIMIT_FSIZE, &half_a_mebibyte);
  };
  check_not_known(culprit_run({"--fail-on", "leaks", "--min-bytes", "1G"}, {"many_live", "50000", "4"}, options),
                  "file size limit was reached");
}

TEST_CASE("a process that cannot make its dump is known to the run", "[verdict]") {
  TemporaryFolder folder;
  // The command cannot know how long the program's name is.
  const std::string name = "%n" + std::string(250, 'x') + ".dump";
  const Run run = culprit_run({"--fail-on", "leaks", "--out", folder.file(name)}, {"free_null"});
  check_not_known(run, "the process recorded nothing: no dump could be made");
  CHECK(has(run.err, "File name too long"));
  CHECK(has(run.err, "free_null"));
}

TEST_CASE("a dump that the program removes is missed", "[verdict]") {
  TemporaryFolder folder;
  const std::string program = subject_path("driver_leak_one").string();
  const Run run = culprit_run({"--fail-on", "leaks", "--out", folder.file("a.dump")},
                              {"/bin/sh", "-c", program + "; rm -f " + folder.file("a.dump")});
  check_not_known(run, "1 more process recorded, but the dump was not found");
}

TEST_CASE("a place that cannot hold a dump is an error before the program starts", "[verdict]") {
  TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "no folder";
  const auto disk = small_disk("64k");
  if (disk != nullptr) std::ofstream(disk->file("fill")) << std::string(64 << 10, 'x');
  std::vector<std::string> places = {"/proc/nowhere/a.dump",
                                     folder.file("file/a.dump"),
                                     folder.path().string(),
                                     folder.path().string() + "/",
                                     "/dev/null",
                                     folder.file(std::string(300, 'd') + "/a.dump")};
  if (disk != nullptr) places.push_back(disk->file("a.dump"));
  for (const std::string& place : places) {
    INFO(place);
    const Run run = culprit_run({"--out", place}, {"leak_one"});
    CHECK(run.exit_code == 3);
    CHECK(run.out.empty());  // the program did not start
    CHECK(has(run.err, "--out") == (run.err.find(" is a folder; name a file in it") == std::string::npos));
  }
}

TEST_CASE("the folders of --out are made, and a long path is not cut", "[verdict]") {
  TemporaryFolder folder;
  std::string path = folder.path().string();
  for (int i = 0; i < 9; ++i) path += "/" + std::string(200, static_cast<char>('a' + i));
  path += "/%q{NONE}/a.dump";
  const Run run = culprit_run({"--fail-on", "leaks", "--out", path}, {"driver_leak_one"});
  INFO(run.err);
  CHECK(run.exit_code == 1);
  CHECK(has(run.err, "LEAKED 10.7 KiB"));
}

TEST_CASE("a percent sign in the name of a folder is a percent sign", "[verdict]") {
  TemporaryFolder folder;
  const std::string here = folder.file("100%p%n%");
  REQUIRE(fs::create_directory(here));
  for (const char* way : {"out", "keep", "temporary"}) {
    INFO(way);
    RunOptions options;
    options.working_directory = here;
    std::vector<std::string> given = {"--fail-on", "leaks"};
    if (way[0] == 'o') given.insert(given.end(), {"--out", "a.dump"});
    if (way[0] == 'k') given.emplace_back("--keep");
    if (way[0] == 't') options.environment["TMPDIR"] = here;
    const Run run = culprit_run(given, {"driver_leak_one"}, options);
    INFO(run.err);
    CHECK(run.exit_code == 1);
    CHECK(has(run.err, "LEAKED 10.7 KiB"));
  }
}

TEST_CASE("a gate sees the leaks of a program whose standard output is closed", "[verdict]") {
  RunOptions options;
  options.before_exec = [] {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
  };
  const Run leaky = culprit_run({"--fail-on", "leaks"}, {"driver_leak_one"}, options);
  INFO(leaky.err);
  CHECK(leaky.exit_code == 1);
  CHECK(has(leaky.err, "LEAKED 10.7 KiB"));
  CHECK(culprit_run({"--fail-on", "leaks"}, {"free_null"}, options).exit_code == 0);
}

TEST_CASE("an output file never replaces the dump of the run", "[verdict]") {
  TemporaryFolder folder;
  RunOptions options;
  options.working_directory = folder.path().string();
  const Run same = culprit_run({"--out", "a.dump", "-o", "./a.dump"}, {"leak_one"}, options);
  CHECK(same.exit_code == 3);
  CHECK(same.out.empty());  // the program did not start
  // A name that is known only afterwards.
  fs::create_symlink("b.dump", folder.file("link"));
  const Run later = culprit_run({"--out", "%q{NONE}b.dump", "-o", "link"}, {"driver_leak_one"}, options);
  INFO(later.err);
  CHECK(later.exit_code == 3);
  CHECK(has(later.err, "link: is an input of this command"));
  CHECK(has(later.err, "the dump is kept: culprit report " + folder.file("b.dump")));
  CHECK(read_report(folder.file("b.dump")).leaked_bytes() == 11001);
}

TEST_CASE("a report that has no reader fails, and its dump stays", "[verdict]") {
  TemporaryFolder folder;
  RunOptions options;
  options.environment["TMPDIR"] = folder.path().string();
  options.before_exec = [] { close(STDERR_FILENO); };
  const Run run = culprit_run({"--fail-on", "leaks"}, {"free_null"}, options);
  CHECK(run.exit_code == 3);
  std::size_t dumps = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    dumps += entry.path().extension() == ".dump" ? 1 : 0;
  CHECK(dumps == 1);
}

TEST_CASE("a mark that no process has keeps the dump for another report", "[verdict]") {
  TemporaryFolder folder;
  RunOptions options;
  options.environment["TMPDIR"] = folder.path().string();
  const Run run = culprit_run({"--since-mark", "typo"}, {"driver_leak_one"}, options);
  INFO(run.err);
  CHECK(run.exit_code == 3);
  const std::string advice = "culprit: the dump is kept: culprit report ";
  REQUIRE(has(run.err, advice));
  std::string path = run.err.substr(run.err.find(advice) + advice.size());
  path.resize(path.find('\n'));
  CHECK(read_report(path).leaked_bytes() == 11001);
}

TEST_CASE("run --require-cuda fails when no CUDA call was seen", "[verdict]") {
  CHECK(culprit_run({"--fail-on", "leaks"}, {"/bin/true"}).exit_code == 0);
  CHECK(culprit_run({"--require-cuda"}, {"/bin/true"}).exit_code == 4);
  CHECK(culprit_run({"--require-cuda"}, {"driver_leak_one"}).exit_code == 0);
}

TEST_CASE("no folder of a command whose output has no reader outlives it", "[verdict]") {
  for (const char* command : {"run", "sweep"}) {
    INFO(command);
    TemporaryFolder folder;
    RunOptions options;
    options.environment["TMPDIR"] = folder.path().string();
    // The descriptor of a pipe without a reader: SIGPIPE ends culprit at its first line.
    options.before_exec = [] {
      int ends[2];
      if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(125);
      close(ends[0]);
      close(ends[1]);
      signal(SIGPIPE, SIG_DFL);
    };
    const Run run = culprit_command(command, {}, {"sweep_target", "clean"}, options);
    CHECK(run.signal == SIGPIPE);
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("no folder of the command outlives it, however it ends", "[verdict]") {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    INFO("signal " << signal_number);
    TemporaryFolder folder;
    RunOptions options;
    options.environment["TMPDIR"] = folder.path().string();
    options.when_ready = [&](pid_t pid) {
      CHECK_FALSE(fs::is_empty(folder.path()));
      kill(pid, signal_number);
      siginfo_t ended = {};
      waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
    };
    culprit_run({}, {"end_how", "live"}, options);
    // After a SIGKILL the next run removes the folder.
    options.when_ready = nullptr;
    if (signal_number == SIGKILL) culprit_run({}, {"/bin/true"}, options);
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("a second run into the same pattern has a number before the extension, and is found", "[verdict]") {
  TemporaryFolder folder;
  const std::string out = folder.file("same.dump");
  CHECK(culprit_run({"--fail-on", "leaks", "--out", out}, {"driver_leak_one"}).exit_code == 1);
  const Run second = culprit_run({"--fail-on", "leaks", "--out", out}, {"driver_leak_one"});
  CHECK(second.exit_code == 1);
  CHECK(read_report(folder.file("same.1.dump")).leaked_bytes() == 11001);
}

}  // namespace culprit::test
