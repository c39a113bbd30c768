// `culprit attach` while the program changes under it: libraries come and go, children are forked, programs are
// replaced.
#include <fcntl.h>
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
    for (int i = 0; i < 3; ++i) {
      attach_and_detach(pid, dump);
      fs::remove(dump);
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("a program that is replaced all the time runs on, and each failure names that", "[attach]") {
  if (!may_trace()) return;
  for (const char* kind : {"exec", "thread"}) {
    INFO(kind);
    const TemporaryFolder folder;
    const Run run = run_alone("attach_exec", {kind}, [&](pid_t pid) {
      for (int i = 0; i < 25; ++i) {
        const Finished attached =
            run_culprit({"attach", std::to_string(pid), "--out", folder.file("x.%p.dump"), "--timeout", "300ms"});
        INFO(attached.err);
        CHECK((attached.exit_code == 0 || attached.exit_code == 3));
        const bool named = contains(attached.err, "by another program (exec)") ||
                           contains(attached.err, "has not loaded glibc (does it still start?)") ||
                           contains(attached.err, "is loading libraries (does it still start?)") ||
                           contains(attached.err, "is attached already") ||  // the same program still

                           contains(attached.err, "came to a point where a call can be injected");
        if (attached.exit_code == 3) CHECK(named);
        if (attached.exit_code == 0) CHECK(has(attached.err, "attached to"));
      }
    });
    check_fine(run);
  }
}

TEST_CASE("a program that ends while it is attached is said to have ended", "[attach]") {
  if (!may_trace()) return;
  for (int i = 0; i < 25; ++i) {
    const TemporaryFolder folder;
    const std::string subject = subject_path("attach_exec").string();
    const std::string line = subject + " end " + std::to_string(i * 1500) + " & " + culprit_path().string() +
                             " attach $! --out " + folder.file("x.dump") + "; echo exit $?; wait $!; echo ended $?";
    ProgramOptions shell;
    shell.environment = {{"LD_PRELOAD", ""}, {"NO_COLOR", "1"}, {"CULPRIT_LIBRARY", library_path().string()}};
    if (!on_gpu()) shell.environment["LD_LIBRARY_PATH"] = (culprit_path().parent_path() / "../simcuda").string();
    const Finished finished = run_program({"/bin/sh", "-c", line}, shell);
    INFO(finished.err);
    CHECK(has(finished.out, "ended 0"));
    const bool named = contains(finished.err, "ended") || contains(finished.err, "there is no process");
    if (!contains(finished.out, "exit 0")) CHECK(named);
    if (contains(finished.out, "exit 0")) CHECK(has(finished.err, "attached to"));
  }
}

TEST_CASE("a program whose main thread has ended by pthread_exit is attached", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  const Run run = run_alone("attach_exec", {"pthread"}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    for (int i = 0; i < 200 && status_of(pid, "State")[0] != 'Z'; ++i) usleep(10000);
    const Finished attached = run_culprit({"attach", number, "--out", dump});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    CHECK(has(run_culprit({"attach", number}).err, "is attached already"));
    for (const fs::directory_entry& thread : fs::directory_iterator("/proc/" + number + "/task")) {
      const int input = open((thread.path() / "fd/0").c_str(), O_WRONLY | O_CLOEXEC);
      if (input < 0) continue;
      CHECK(write(input, "xxx", 3) == 3);
      close(input);
      break;
    }
    usleep(200000);
    const Finished detached = run_culprit({"detach", number});
    INFO(detached.err);
    CHECK(detached.exit_code == 0);
  });
  check_fine(run);
  const std::vector<Group> leaks = read_report(dump).through("leak_after");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == 3);
}

// The first attach loads the library. A child of that moment has a part of it, and the loader in the middle of that.
TEST_CASE("a child that was forked while its parent loaded the library is left alone", "[attach]") {
  if (!may_trace()) return;
  if (skip_fork_child()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_forks", {"150", "fast"}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    CHECK(run_culprit({"attach", number, "--out", folder.file("parent.%p.dump")}).exit_code == 0);
    int borrowed = 0;
    for (const fs::directory_entry& thread : fs::directory_iterator("/proc/" + number + "/task")) {
      std::istringstream children(file_text(thread.path() / "children"));
      for (pid_t child = 0; children >> child;) {
        const Finished attached =
            run_culprit({"attach", std::to_string(child), "--out", folder.file("child.%p.dump"), "--timeout", "300ms"});
        INFO(attached.err);
        const bool named = contains(attached.err, "is loaded in attach_forks") ||
                           contains(attached.err, "was forked by a program that did");
        if (attached.exit_code == 3) CHECK(named);
        if (attached.exit_code == 3) continue;
        REQUIRE(attached.exit_code == 0);
        // Those behind it were forked later. The parent's dump is mapped in some of them.
        if (++borrowed == 25) break;
      }
    }
    CHECK(run_culprit({"detach", number}).exit_code == 0);
  });
  check_fine(run);
}

// Such a child would end in its next dlopen(), which finds the loader in the middle of another one.
TEST_CASE("no child is forked while the library is loaded", "[attach]") {
  if (!may_trace()) return;
  if (skip_fork_child()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_forks", {"0", "loading"}, [&](pid_t pid) {
    const Finished attached =
        run_culprit({"attach", std::to_string(pid), "--out", folder.file("parent.%p.dump"), "--timeout", "60s"});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
  });
  check_fine(run);
}

TEST_CASE("a child that was forked at any moment of an attach can be attached and detached itself", "[attach]") {
  if (!may_trace()) return;
  if (skip_fork_child()) return;
  const TemporaryFolder folder;
  constexpr int kChildren = 60;
  const Run run = run_alone("attach_forks", {std::to_string(kChildren), "later"}, [&](pid_t pid) {
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
    // The library is loaded before: see above.
    attach_and_detach(pid, folder.file("first.dump"));
    tell(pid, "x");
    while (forked().size() < kChildren) {
      CHECK(run_culprit({"attach", number, "--out", folder.file("parent.%p.dump")}).exit_code == 0);
      CHECK(run_culprit({"detach", number}).exit_code == 0);
      for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) fs::remove(entry.path());
    }
    CHECK(run_culprit({"attach", number, "--out", folder.file("parent.%p.dump")}).exit_code == 0);
    int tried = 0;
    for (const pid_t child : forked()) {
      if (++tried % 3 != 0) continue;  // time
      const Finished attached =
          run_culprit({"attach", std::to_string(child), "--out", folder.file("child.%p.dump"), "--timeout", "2s"});
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
