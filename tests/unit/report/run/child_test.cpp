// How `culprit run` treats its command: signals are passed on, and the exit status is kept.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/support/dump_builder.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/shell.h"

using culprit::test::file_text;
using culprit::test::TemporaryFolder;

namespace {

constexpr int kLongestMs = 30000;

// True as soon as `holds()` is, false when that takes too long.
template <typename Condition>
bool comes_true(Condition holds) {
  for (int ms = 0; ms < kLongestMs; ms += 10) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return holds();
}

// `culprit run -- command`, killed at the latest when the test is over.
class Started {
 public:
  // Returns once the command has created the file `ready`. `before_exec` runs in the child.
  Started(std::vector<std::string> command, const std::string& ready, void (*before_exec)() = nullptr)
      : child_(::fork()) {
    if (child_ == 0) {
      ::setenv("CULPRIT_LIBRARY", "/lib/x86_64-linux-gnu/libm.so.6", 1);
      if (before_exec != nullptr) before_exec();
      command.insert(command.begin(), {"culprit", "run", "--"});
      std::vector<char*> words;
      for (std::string& word : command) words.push_back(word.data());
      words.push_back(nullptr);
      ::execv(CULPRIT_COMMAND, words.data());
      ::_exit(125);
    }
    REQUIRE(child_ > 0);
    const bool is_ready = comes_true([&] { return std::ifstream(ready).good(); });
    if (!is_ready) end();
    REQUIRE(is_ready);
  }
  Started(const std::string& script, const std::string& ready, void (*before_exec)() = nullptr)
      : Started(std::vector<std::string>{"sh", "-c", script}, ready, before_exec) {}
  ~Started() { end(); }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  void send(int number) const { REQUIRE(::kill(child_, number) == 0); }

  int wait() {
    int status = 0;
    const bool ended = comes_true([&] { return ::waitpid(child_, &status, WNOHANG) == child_; });
    if (ended) child_ = -1;
    REQUIRE(ended);
    return status;
  }

 private:
  void end() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  pid_t child_;
};

// A line of /proc/PID/status.
std::string line_of(const std::string& status, const std::string& name) {
  const std::size_t at = status.find(name);
  return at == std::string::npos ? "" : status.substr(at, status.find('\n', at) - at);
}

bool ignores(const std::string& status, int number) {
  const std::string line = line_of(status, "SigIgn");
  return line.size() > 8 && (std::stoull(line.substr(8), nullptr, 16) >> (number - 1) & 1) == 1;
}

}  // namespace

TEST_CASE("signals are passed on to the command", "[report][child]") {
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    TemporaryFolder folder;
    const std::string ready = folder.file("ready");
    Started child("trap 'exit 33' INT TERM HUP USR1; : > " + ready + "; while :; do sleep 0.05; done", ready);
    child.send(number);
    const int status = child.wait();
    INFO("signal " << number);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 33);
  }
}

TEST_CASE("a command that a signal ends takes culprit with it", "[report][child]") {
  for (int number : {SIGTERM, SIGKILL, SIGABRT}) {
    TemporaryFolder folder;
    const std::string ready = folder.file("ready");
    Started child(": > " + ready + "; kill -" + std::to_string(number) + " $$", ready);
    const int status = child.wait();
    INFO("signal " << number);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
  }
}

TEST_CASE("the command's signals are as culprit found them", "[report][child]") {
  TemporaryFolder folder;
  const std::string mask = folder.file("mask");
  const std::string script = "cat /proc/self/status > " + mask + ".new; mv " + mask + ".new " + mask + "; exit 7";
  SECTION("usual ones") {
    Started child(script, mask);
    CHECK(WEXITSTATUS(child.wait()) == 7);
    for (const char* name : {"SigBlk", "SigIgn"})
      CHECK(line_of(file_text(mask), name) == line_of(file_text("/proc/self/status"), name));
  }
  SECTION("ignored ones, as nohup, a background job or a daemon leaves them") {
    Started child(script, mask, [] {
      for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD, SIGUSR1}) ::signal(number, SIG_IGN);
    });
    CHECK(WEXITSTATUS(child.wait()) == 7);
    for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1}) {
      INFO("signal " << number);
      CHECK(ignores(file_text(mask), number));
    }
  }
}

TEST_CASE("a signal that culprit and the command ignore ends neither", "[report][child]") {
  TemporaryFolder folder;
  const std::string ready = folder.file("ready");
  const std::string go = folder.file("go");
  Started child(": > " + ready + "; while [ ! -e " + go + " ]; do sleep 0.05; done; exit 7", ready, [] {
    for (int number : {SIGHUP, SIGINT}) ::signal(number, SIG_IGN);
  });
  for (int number : {SIGHUP, SIGINT}) child.send(number);
  std::ofstream{go};
  const int status = child.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a command that ignores the ends of its children does so under culprit", "[report][child]") {
  TemporaryFolder folder;
  const std::string status = folder.file("status");
  // No shell: one sets SIGCHLD for itself.
  Started child({"cp", "/proc/self/status", status}, status, [] { ::signal(SIGCHLD, SIG_IGN); });
  CHECK(WEXITSTATUS(child.wait()) == 0);
  CHECK(ignores(file_text(status), SIGCHLD));
}

TEST_CASE("standard descriptors that are closed stay so in the command", "[report][child]") {
  TemporaryFolder folder;
  const std::string ready = folder.file("ready");
  const std::string script = "for i in 0 1 2; do [ -e /proc/$$/fd/$i ] && exit 1; done; (: > " + ready + "); exit 7";
  Started child(script, ready, [] {
    for (int descriptor : {0, 1, 2}) ::close(descriptor);
  });
  const int status = child.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a report is not printed into a file that became a standard descriptor", "[report][child]") {
  TemporaryFolder folder;
  const std::string dump = folder.file("a.dump");
  culprit::test::DumpBuilder().write(dump);
  const std::string before = file_text(dump);
  for (const char* closed : {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    INFO(closed);
    const int code =
        culprit::test::shell("CULPRIT report " + dump + " -o " + folder.file("out") + " " + closed).exit_code;
    CHECK(code == 0);
    CHECK(file_text(folder.file("out")).rfind("culprit", 0) == 0);
    CHECK(file_text(dump) == before);
  }
}
