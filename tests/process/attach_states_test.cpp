// `culprit attach` to threads in an unusual state: a call is put into them as the kernel puts a signal handler there,
// or they are not borrowed.
#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/pattern.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

TEST_CASE("a call does not inherit the modes of the processor that a thread has set", "[attach]") {
  if (!may_trace()) return;
  for (const char* kind : {"alignment", "floating"}) {
    INFO(kind);
    const TemporaryFolder folder;
    const Run run = run_alone("attach_states", {kind}, [&](pid_t pid) {
      for (int i = 0; i < 3; ++i) attach_and_detach(pid, folder.file(std::to_string(i) + ".dump"));
      check_runs_alone(pid);
    });
    check_fine(run);
  }
}

// Wine takes the numbers for those of Windows.
TEST_CASE("a thread whose system calls the program handles itself is not borrowed", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_states", {"dispatch"}, [&](pid_t pid) {
    const Finished attached =
        run_culprit({"attach", std::to_string(pid), "--out", folder.file("x.dump"), "--timeout", "1s"});
    INFO(attached.err);
    // It is not so all the time.
    CHECK((attached.exit_code == 0 || attached.exit_code == 3));
    if (attached.exit_code == 3) CHECK(has(attached.err, "came to a point where a call can be injected"));
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("a thread with the thread-local data of another one is not borrowed", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_states", {"clone"}, [&](pid_t pid) {
    const Finished attached =
        run_culprit({"attach", std::to_string(pid), "--out", folder.file("x.dump"), "--timeout", "1s", "-v"});
    INFO(attached.err);
    // The main thread, which has data of its own, may be met between two of its waits: 0.
    for (const std::string& thread : first_groups(attached.err, "thread ([0-9]+) of attach_states "))
      CHECK(thread == std::to_string(pid));
    if (attached.exit_code != 0) {
      CHECK(attached.exit_code == 3);
      CHECK((contains(attached.err, "which uses the thread-local data of another one") ||
             contains(attached.err, "in epoll_wait, which a stop would interrupt")));
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

// The thread that replaces an address there would crash, with the loader's lock taken.
TEST_CASE("memory with addresses of the driver may go away at any moment", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_states", {"unmapping"}, [&](pid_t pid) {
    for (int i = 0; i < 20; ++i) attach_and_detach(pid, folder.file(std::to_string(i) + ".dump"));
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("a program with nearly all mappings that the system allows is left alone", "[attach]") {
  if (!may_trace()) return;
  if (std::stoul(file_text("/proc/sys/vm/max_map_count")) > 500000) {
    WARN("skipped: the system allows more mappings than a program makes in a few seconds");
    return;
  }
  const Run run = run_alone("attach_states", {"mappings"}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid)});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, " mappings (vm.max_map_count), and loading libculprit.so needs "));
    CHECK_FALSE(contains(file_text("/proc/" + std::to_string(pid) + "/maps"), "libculprit"));
    check_runs_alone(pid);
  });
  check_fine(run);
}

}  // namespace culprit::test
