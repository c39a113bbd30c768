// Signals that arrive while `culprit attach` has a call run in the program: each reaches the program once, and the call
// is finished.
#include <signal.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

TEST_CASE("signals that are sent while a call is injected arrive afterwards, as they were sent", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  const Run run = run_alone("attach_signals", {"sent"}, [&](pid_t pid) {
    for (int i = 0; i < 15; ++i) {
      attach_and_detach(pid, dump);
      fs::remove(dump);
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

// It waits for 0.2 s to be taken out of a call, and then goes on with its own work.
TEST_CASE("a thread that culprit forgot in a call gets its signals", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_signals", {"sent"}, [&](pid_t pid) {
    for (const char* command : {"attach", "detach"}) {
      const Finished finished =
          run_culprit({command, std::to_string(pid), "--timeout", "60s"},
                      {{"LD_PRELOAD", subject_path("late_tracer.so").string()}, {"FINISHED_MS", "400"}});
      INFO(finished.err);
      CHECK(finished.exit_code == 0);
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("a call that crashes is reported, with the place and with all that it leaves behind", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string library = folder.file("libculprit.so");
  fs::copy_file(subject_path("attach_crashing.so"), library);
  // Without other threads: the end of a program waits for the loader's lock where another thread was left with it.
  const Run run = run_alone("attach_fork", {"alone"}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const Finished attached = run_culprit({"attach", number}, {{"CULPRIT_LIBRARY", library}});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "SIGSEGV at 0x10 in libculprit.so+0x"));
    CHECK(has(attached.err, "nothing should be loaded into the process any more"));
    CHECK(has(attached.err, "its next dlopen() waits for ever, and libculprit.so stays loaded"));
    check_runs_alone(pid);
    for (const char* command : {"attach", "detach"}) {
      const Finished again = run_culprit({command, number, "--timeout", "1s"});
      INFO(again.err);
      CHECK(again.exit_code == 3);
      CHECK(has(again.err, "a call of an earlier attach crashed in"));
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

}  // namespace culprit::test
