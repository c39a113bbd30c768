// How `culprit run` treats its command: signals pass, and its death is told as it was.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "report/run_dumps.h"
#include "tests/catch.h"

using culprit::TemporaryFolder;

namespace {

// Starts `culprit run -- sh -c script` and returns its pid once the script has made the file `ready`.
pid_t start(const std::string& script, const std::string& ready) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("CULPRIT_LIBRARY", "/lib/x86_64-linux-gnu/libm.so.6", 1);
    ::execl(CULPRIT_COMMAND, "culprit", "run", "--", "sh", "-c", script.c_str(), nullptr);
    ::_exit(125);
  }
  for (int i = 0; i < 1000 && !std::ifstream(ready); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  REQUIRE(std::ifstream(ready));
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("signals are passed on to the command", "[report][child]") {
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    TemporaryFolder folder;
    const std::string ready = folder.path() + "/ready";
    const pid_t child =
        start("trap 'exit 33' INT TERM HUP USR1; : > " + ready + "; while :; do sleep 0.05; done", ready);
    ::kill(child, number);
    const int status = wait_for(child);
    INFO("signal " << number);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 33);
  }
}

TEST_CASE("a command that a signal ends takes culprit with it", "[report][child]") {
  for (int number : {SIGTERM, SIGKILL, SIGABRT}) {
    TemporaryFolder folder;
    const std::string ready = folder.path() + "/ready";
    const pid_t child = start(": > " + ready + "; kill -" + std::to_string(number) + " $$", ready);
    const int status = wait_for(child);
    INFO("signal " << number);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
  }
}

TEST_CASE("the command's signals are as culprit found them", "[report][child]") {
  TemporaryFolder folder;
  const std::string mask = folder.path() + "/mask";
  const pid_t child =
      start("grep -E 'SigBlk|SigIgn' /proc/self/status > " + mask + ".new; mv " + mask + ".new " + mask, mask);
  wait_for(child);
  std::ifstream file(mask);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::ifstream own("/proc/self/status");
  const std::string status((std::istreambuf_iterator<char>(own)), {});
  const auto line = [](const std::string& from, const std::string& name) {
    const std::size_t at = from.find(name);
    return from.substr(at, from.find('\n', at) - at);
  };
  CHECK(line(text, "SigBlk") == line(status, "SigBlk"));
  CHECK(line(text, "SigIgn") == line(status, "SigIgn"));
}
