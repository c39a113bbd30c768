// `culprit attach` while the program changes under it: libraries come and go, children are forked, programs are
// replaced.
#include <signal.h>
#include <unistd.h>

#include <sstream>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

TEST_CASE("a program that loads and closes libraries of the driver is attached and detached", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  const Run run = run_alone("attach_plugins", {}, [&](pid_t pid) {
    for (int i = 0; i < 8; ++i) {
      const Finished attached = run_culprit({"attach", std::to_string(pid), "--out", dump, "--timeout", "30s"});
      INFO(attached.err);
      CHECK(attached.exit_code == 0);
      const Finished detached = run_culprit({"detach", std::to_string(pid), "--timeout", "30s"});
      INFO(detached.err);
      CHECK(detached.exit_code == 0);
      fs::remove(dump);
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("a child that was forked at any moment of an attach can be attached and detached itself", "[attach]") {
  if (!may_trace()) return;
  if (skip_fork_child()) return;
  const TemporaryFolder folder;
  constexpr int kChildren = 60;
  const Run run = run_alone("attach_forks", {std::to_string(kChildren)}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const std::string children = "/proc/" + number + "/task/" + number + "/children";
    const auto forked = [&] {
      std::vector<pid_t> found;
      for (const fs::directory_entry& entry : fs::directory_iterator("/proc/" + number + "/task")) {
        std::istringstream list(file_text(entry.path() / "children"));
        for (pid_t child = 0; list >> child;) found.push_back(child);
      }
      return found;
    };
    while (forked().size() < kChildren) {
      CHECK(run_culprit({"attach", number, "--out", folder.file("parent.%p.dump")}).exit_code == 0);
      CHECK(run_culprit({"detach", number}).exit_code == 0);
      for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) fs::remove(entry.path());
    }
    CHECK(run_culprit({"attach", number, "--out", folder.file("parent.%p.dump")}).exit_code == 0);
    int tried = 0;
    for (const pid_t child : forked()) {
      if (++tried % 3 != 0) continue;  // time
      const Finished attached = run_culprit({"attach", std::to_string(child), "--out", folder.file("child.%p.dump")});
      INFO(attached.err);
      CHECK(attached.exit_code == 0);
      const Finished again = run_culprit({"attach", std::to_string(child)});
      CHECK(has(again.err, "is attached already"));
      const Finished detached = run_culprit({"detach", std::to_string(child)});
      INFO(detached.err);
      CHECK(detached.exit_code == 0);
      CHECK(has(run_culprit({"detach", std::to_string(child)}).err, "is not attached"));
    }
    CHECK(run_culprit({"detach", number}).exit_code == 0);
  });
  check_fine(run);
}

}  // namespace culprit::test
