// The diagnostics: which level is written when, how a line looks, and that foreign text in it is harmless.
#include "report/base/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <iostream>
#include <sstream>
#include <thread>

#include "report/base/progress.h"
#include "tests/catch.h"
#include "tests/support/text.h"

using namespace culprit::report;
using culprit::test::has;

namespace {

// Collects what is written to std::cerr, at a level.
class Written {
 public:
  explicit Written(log::Level level) : before_(std::cerr.rdbuf(text_.rdbuf())) { log::set_level(level); }
  ~Written() {
    log::set_level(log::Level::kNormal);
    std::cerr.rdbuf(before_);
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

std::string all_levels(log::Level level) {
  const Written written(level);
  log::error("e");
  log::warning("w");
  log::note("n");
  log::line("next  l");
  log::debug("d");
  log::trace("t");
  return written.text();
}

// A terminal in place of standard error. std::cerr has another buffer meanwhile.
class TerminalAsError {
 public:
  TerminalAsError() : main_(::posix_openpt(O_RDWR | O_NOCTTY)), before_(::dup(STDERR_FILENO)) {
    REQUIRE(main_ >= 0);
    REQUIRE(::grantpt(main_) == 0);
    REQUIRE(::unlockpt(main_) == 0);
    const int terminal = ::open(::ptsname(main_), O_RDWR | O_NOCTTY);
    REQUIRE(terminal >= 0);
    ::dup2(terminal, STDERR_FILENO);
    ::close(terminal);
  }
  ~TerminalAsError() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(main_);
  }
  TerminalAsError(const TerminalAsError&) = delete;
  TerminalAsError& operator=(const TerminalAsError&) = delete;

 private:
  int main_;
  int before_;
};

}  // namespace

TEST_CASE("each level has its lines, and errors are in all of them", "[report][log]") {
  const std::string normal = "culprit: e\nculprit: warning: w\nculprit: n\nnext  l\n";
  CHECK(all_levels(log::Level::kQuiet) == "culprit: e\n");
  CHECK(all_levels(log::Level::kNormal) == normal);
  CHECK(all_levels(log::Level::kVerbose) == normal + "culprit: debug: d\n");
  CHECK(all_levels(log::Level::kTrace) == normal + "culprit: debug: d\nculprit: trace: t\n");
}

TEST_CASE("a text in a line is printable, and no format string", "[report][log]") {
  const Written written(log::Level::kNormal);
  log::error("{} %v %s \x1b[31m\u009b\u202e\xff größe\nsecond");
  CHECK(written.text() == "culprit: {} %v %s ?[31m??? größe\nsecond\n");
}

TEST_CASE("a step tells its time with --verbose only", "[report][log]") {
  const auto told = [](log::Level level) {
    const Written written(level);
    { const log::StepTime time("read x"); }
    return written.text();
  };
  CHECK(told(log::Level::kNormal).empty());
  const std::string text = told(log::Level::kVerbose);
  CHECK(has(text, "culprit: debug: read x: "));
  CHECK(has(text, " ms\n"));
}

TEST_CASE("lines of several threads stay whole", "[report][log]") {
  const Written written(log::Level::kNormal);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 500; ++k) log::warning("0123456789");
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(written.text());
  int count = 0;
  int whole = 0;
  for (std::string line; std::getline(lines, line); ++count) whole += line == "culprit: warning: 0123456789" ? 1 : 0;
  CHECK(count == 2000);
  CHECK(whole == count);
}

TEST_CASE("progress appears on a terminal, not with --quiet, and makes room for messages", "[report][log]") {
  const auto shown = [](log::Level level) {
    const Written written(level);
    const TerminalAsError terminal;
    {
      Progress progress(2);
      std::this_thread::sleep_for(std::chrono::milliseconds(1050));
      progress.done("half");
      log::error("e");
    }
    return written.text();
  };
  CHECK(shown(log::Level::kNormal) ==
        "\r\x1b[K[###############...............] 1/2 · half\r\x1b[K"
        "culprit: e\n");
  CHECK(shown(log::Level::kQuiet) == "culprit: e\n");
}
