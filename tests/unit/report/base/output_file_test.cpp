#include "report/base/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "report/base/command_folder.h"
#include "report/base/file_error.h"
#include "report/base/inherited_signals.h"
#include "tests/catch.h"
#include "tests/support/environment_variable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace culprit::report;
using culprit::test::EnvironmentVariable;
using culprit::test::file_text;
using culprit::test::has;
using culprit::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

void write(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.stream() << text;
  file.commit();
}

std::size_t entries_of(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

std::string refusal(const std::string& path, const std::vector<std::string>& inputs = {}) {
  try {
    check_output_file(path, inputs);
    return {};
  } catch (const FileError& error) {
    return error.what();
  }
}

// Ends a child process by `signal_number` in `work`, and waits for it.
template <typename Work>
int signal_that_ends(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("a file appears when it is complete, with the usual permissions", "[report][output]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  const mode_t before = umask(027);
  {
    OutputFile file(path);
    file.stream() << "new";
    CHECK_FALSE(fs::exists(path));
    file.commit();
  }
  umask(before);
  CHECK(file_text(path) == "new");
  struct stat info = {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0640);
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  write(path, "newer");
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("a file that is given up leaves the old one", "[report][output]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  write(path, "old");
  { OutputFile(path).stream() << "new"; }
  CHECK(file_text(path) == "old");
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("a file that cannot be written completely leaves the old one, and says why", "[report][output]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  write(path, "old");
  const pid_t child = fork();
  if (child == 0) {
    ignore_file_size_signal();
    const rlimit small = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &small);
    try {
      write(path, std::string(100000, 'x'));
    } catch (const FileError& error) {
      _exit(has(error.what(), "a.txt: cannot be written (File too large)") ? 7 : 8);
    }
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(file_text(path) == "old");
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("a link stays, and the file behind it is replaced", "[report][output]") {
  TemporaryFolder folder;
  REQUIRE(fs::create_directory(folder.file("real")));
  REQUIRE(symlink("real/a.txt", folder.file("link").c_str()) == 0);
  write(folder.file("link"), "one");
  write(folder.file("link"), "two");
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(file_text(folder.file("real/a.txt")) == "two");
  CHECK(entries_of(folder.file("real")) == 1);
}

TEST_CASE("a device and a pipe are written directly", "[report][output]") {
  TemporaryFolder folder;
  write("/dev/null", "gone");
  CHECK_THROWS_AS(write("/dev/full", "gone"), FileError);
  const std::string fifo = folder.file("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  write(fifo, "text");
  char text[8] = {};
  CHECK(read(reader, text, sizeof(text)) == 4);
  close(reader);
  CHECK(fs::is_fifo(fifo));
}

TEST_CASE("an output is checked before the work: place, permission, inputs", "[report][output]") {
  TemporaryFolder folder;
  const std::string input = folder.file("in.dump"), link = folder.file("link");
  write(input, "dump");
  REQUIRE(symlink(input.c_str(), link.c_str()) == 0);
  CHECK(refusal("").empty());
  CHECK(refusal("/dev/null").empty());
  CHECK(refusal(folder.file("out.txt"), {input}).empty());
  CHECK(has(refusal(input, {"other", input}), "is an input of this command"));
  CHECK(has(refusal(link, {input}), "is an input of this command"));
  CHECK(has(refusal(folder.path().string() + "/./in.dump", {link}), "is an input of this command"));
  CHECK(has(refusal(folder.path().string()), "is a folder; name a file in it"));
  CHECK(has(refusal(folder.file("none/out.txt")), "cannot be written (No such file or directory)"));
  CHECK(has(refusal("/proc/out.txt"), "cannot be written"));
  CHECK(entries_of(folder.path()) == 2);
}

TEST_CASE("a signal removes what is not to outlive the process", "[report][output]") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) {
    INFO("signal " << number);
    TemporaryFolder folder;
    setenv("TMPDIR", folder.path().c_str(), 1);
    const int ended_by = signal_that_ends([&] {
      const rlimit no_core = {0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      for (int other : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) signal(other, SIG_DFL);
      const CommandFolder temporary;
      fs::create_directories(temporary.path() + "/deep/deeper");
      std::ofstream(temporary.path() + "/deep/deeper/file") << "text";
      OutputFile file(folder.file("report.html"));
      file.stream() << "half";
      raise(number);
    });
    unsetenv("TMPDIR");
    CHECK(ended_by == number);
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("folders of killed processes are removed by the next one, others stay", "[report][output]") {
  TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  CHECK(signal_that_ends([] {
          const CommandFolder killed;
          std::ofstream(killed.path() + "/a.dump") << "text";
          raise(SIGKILL);
        }) == SIGKILL);
  std::string kept;
  {
    CommandFolder one;
    one.keep();
    kept = one.path();
  }
  REQUIRE(fs::create_directory(folder.file("culprit.abcdef")));  // just made by another process, which has no lock yet
  REQUIRE(fs::create_directory(folder.file("culprit.mine")));
  CHECK(entries_of(folder.path()) == 4 - 1);  // the killed one's went when the next folder was made
  {
    const CommandFolder used;
    const CommandFolder other;
    CHECK(fs::exists(used.path()));
    CHECK(entries_of(folder.path()) == 5);
  }
  unsetenv("TMPDIR");
  CHECK(fs::exists(kept));
  CHECK(entries_of(folder.path()) == 3);
}

// A run removed the folder of another one that had not locked it yet.
TEST_CASE("runs that begin at the same time leave each other's folder alone", "[report][output]") {
  const TemporaryFolder folder;
  const EnvironmentVariable place("TMPDIR", folder.path().string());
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    int lost = 0;
    for (int round = 0; round < 300; ++round) {
      const CommandFolder own;
      ::usleep(50);
      if (!fs::exists(own.path())) ++lost;
    }
    ::_exit(lost == 0 ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a folder whose process was killed before it had its lock is removed a minute later", "[report][output]") {
  const TemporaryFolder folder;
  const EnvironmentVariable place("TMPDIR", folder.path().string());
  for (const char* name : {"culprit.newnew", "culprit.oldold", "culprit.filled"})
    fs::create_directory(folder.file(name));
  for (const char* name : {"culprit.newnew", "culprit.oldold"}) std::ofstream(folder.file(name) + "/.in-use.new");
  std::ofstream(folder.file("culprit.filled") + "/report.html") << "text";
  for (const char* name : {"culprit.oldold", "culprit.filled"})
    fs::last_write_time(folder.file(name), fs::file_time_type::clock::now() - std::chrono::minutes(2));
  const CommandFolder next;
  CHECK(fs::exists(folder.file("culprit.newnew")));
  CHECK_FALSE(fs::exists(folder.file("culprit.oldold")));
  CHECK(fs::exists(folder.file("culprit.filled")));
}
