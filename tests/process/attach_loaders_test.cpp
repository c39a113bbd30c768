// `culprit attach` to programs whose threads load and close libraries without pause: the loader's lock is never free
// when it is looked at.
#include <chrono>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// Of each. Before there was a turn for the borrowed thread: 2.8 to 9 s with one thread; with a turn 0.1 to 1.1 s.
constexpr std::chrono::seconds kLongest{2};

void check_quick(const std::vector<std::string>& words) {
  const auto begin = std::chrono::steady_clock::now();
  const Finished finished = run_culprit(words);
  INFO(finished.err);
  CHECK(finished.exit_code == 0);
  CHECK(std::chrono::steady_clock::now() - begin < kLongest);
}

}  // namespace

TEST_CASE("a program that is in the loader nearly always is attached and detached soon", "[attach]") {
  if (!may_trace()) return;
  for (const std::string threads : {"1", "2", "4"}) {
    INFO(threads << " threads");
    const TemporaryFolder folder;
    const Run run = run_alone("attach_plugins", {"restless", threads}, [&](pid_t pid) {
      const std::string number = std::to_string(pid);
      for (int i = 0; i < 3; ++i) {
        check_quick({"attach", number, "--out", folder.file(std::to_string(i) + ".dump"), "--timeout", "60s"});
        check_quick({"detach", number, "--timeout", "60s"});
      }
      check_runs_alone(pid);
    });
    check_fine(run);
  }
}

}  // namespace culprit::test
