// `culprit attach` to programs with the address space of one that uses NVIDIA's driver: much that is reserved only, and
// devices.
#include <unistd.h>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

using Environment = std::map<std::string, std::string>;

Environment with_slow_search(Environment environment) {
  environment["LD_PRELOAD"] = subject_path("slow_search.so").string();
  return environment;
}

// Whether this user may mount in a name space of its own.
bool may_mount() {
  const Finished tried =
      run_program({"/usr/bin/env", "unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"}, {});
  if (tried.exit_code != 0) WARN("not run here: a mapped device needs a mount");
  return tried.exit_code == 0;
}

}  // namespace

TEST_CASE("the time of an attach does not go with memory that is only reserved", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_wide", {"16"}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    // 32,768 reads would be needed for the pages of a tebibyte.
    for (const Environment& kernel :
         {Environment{{"MOST_READS", "500"}, {"NO_PAGE_SCAN", "1"}}, Environment{{"MOST_READS", "500"}}}) {
      const std::string dump = folder.file(std::to_string(kernel.size()) + ".dump");
      for (const std::vector<std::string>& words :
           {std::vector<std::string>{"attach", number, "--out", dump}, std::vector<std::string>{"detach", number}}) {
        const Finished finished = run_culprit(words, with_slow_search(kernel));
        INFO(finished.err);
        CHECK(finished.exit_code == 0);
      }
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("a mapped device is not opened by an attach", "[attach]") {
  if (!may_trace() || !may_mount()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_wide", {"1", folder.file("device")}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const Finished attached = run_culprit({"attach", number, "--out", folder.file("x.dump")});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    CHECK(run_culprit({"detach", number}).exit_code == 0);
  });
  check_fine(run);
}

TEST_CASE("memory that an attach had no time to search makes the verdict NOT KNOWN", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  for (const bool in_time : {true, false}) {
    INFO((in_time ? "in time" : "late"));
    const std::string dump = folder.file(in_time ? "whole.dump" : "part.dump");
    const Run run = run_alone("attach_target", {"apart"}, [&](pid_t pid) {
      const std::string number = std::to_string(pid);
      const Finished attached = run_culprit({"attach", number, "--out", dump, "--timeout", in_time ? "60s" : "1500ms"},
                                            with_slow_search({{"SEARCH_MS", in_time ? "0" : "1600"}}));
      INFO(attached.err);
      REQUIRE(attached.exit_code == 0);
      CHECK(has(attached.err, "too little time to search ") == !in_time);
      const Finished detached = run_culprit({"detach", number});
      INFO(detached.err);
      CHECK(detached.exit_code == 0);
    });
    check_fine(run);
    const Finished report = run_culprit({"report", dump});
    INFO(report.out);
    const std::string first = report.out.substr(0, report.out.find('\n'));
    CHECK((first.rfind("NOT KNOWN: calls through pointers in ", 0) == 0) == !in_time);
    CHECK((first.find("are not recorded: the attach had no time to search it (again)") != std::string::npos) ==
          !in_time);
  }
}

TEST_CASE("an attach that does not go on ends, and says what it was doing", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_target", {"apart"}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const Finished attached = run_culprit({"attach", number, "--out", folder.file("x.dump"), "--timeout", "300ms"},
                                          with_slow_search({{"HANG_IN_SEARCH", "1"}}));
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "did not go on for 5.00 s while it was searching the program's memory, and gave up"));
    check_runs_alone(pid);
    const Finished again = run_culprit({"attach", number, "--out", folder.file("x.dump")});
    INFO(again.err);
    CHECK(again.exit_code == 0);
    tell(pid, "x");
    CHECK(run_culprit({"detach", number}).exit_code == 0);
  });
  check_fine(run);
}

}  // namespace culprit::test
