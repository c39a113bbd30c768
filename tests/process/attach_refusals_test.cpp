// `culprit attach` looks before it does anything in the program: where it must not, it says why, and the program runs
// on.
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

namespace {

// Attaching fails with this message, and nothing of it is left.
void check_refused(pid_t pid, const std::string& because, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"attach", std::to_string(pid)};
  words.insert(words.end(), more.begin(), more.end());
  const Finished attached = run_culprit(words);
  INFO(attached.err);
  CHECK(attached.exit_code == 3);
  CHECK(has(attached.err, because));
  CHECK_FALSE(contains(file_text("/proc/" + std::to_string(pid) + "/maps"), "libculprit"));
  check_runs_alone(pid);
}

// The calls of system_calls.txt and of the loader.
std::vector<std::string> calls_of_library() {
  std::vector<std::string> numbers;
  for (const long number :
       {SYS_openat, SYS_close, SYS_pread64, SYS_fcntl, SYS_fallocate, SYS_ppoll, SYS_rt_sigtimedwait, SYS_rt_sigaction,
        SYS_mincore, SYS_getpid, SYS_gettid, SYS_mprotect, SYS_madvise, SYS_rt_sigreturn})
    numbers.push_back(std::to_string(number));
  return numbers;
}

std::vector<std::string> filtered(const std::string& kind, std::vector<std::string> calls = {}) {
  calls.insert(calls.begin(), kind);
  return calls;
}

// A cgroup that has the process in it, until the end of the object: of the older version, where each controller has a
// hierarchy of its own, or of the newer one.
class ControlGroup {
 public:
  ControlGroup(const std::string& controller, pid_t pid) : pid_(pid) {
    const fs::path root = "/sys/fs/cgroup";
    const fs::path parent = fs::exists(root / controller) ? root / controller : root;
    path_ = parent / ("culprit_test." + std::to_string(getpid()));
    std::error_code error;
    if (!fs::create_directory(path_, error) || !write("cgroup.procs", std::to_string(pid))) path_.clear();
  }
  ~ControlGroup() {
    if (path_.empty()) return;
    std::ofstream(path_.parent_path() / "cgroup.procs") << pid_ << std::flush;
    for (int i = 0; i < 500 && rmdir(path_.c_str()) != 0 && errno == EBUSY; ++i) usleep(10000);
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // Sets the value of the file, which has one of these names. False: this machine does not let us.
  bool set(const std::string& older, const std::string& older_value, const std::string& newer,
           const std::string& newer_value) const {
    if (path_.empty()) return false;
    return fs::exists(path_ / older) ? write(older, older_value) : write(newer, newer_value);
  }

 private:
  bool write(const std::string& file, const std::string& value) const {
    std::ofstream out(path_ / file, std::ios::in);
    out << value << std::flush;
    return out.good();
  }
  pid_t pid_;
  fs::path path_;
};

}  // namespace

TEST_CASE("a program whose cgroup has no room, or is frozen, is left alone", "[attach]") {
  if (!may_trace() || getuid() != 0) return;
  check_fine(run_alone("attach_target", {}, [](pid_t pid) {
    const ControlGroup group("memory", pid);
    if (!group.set("memory.limit_in_bytes", "8M", "memory.max", "8M")) {
      WARN("not run: no cgroup with a limit of memory can be made here");
      return;
    }
    check_refused(pid, "is in a memory cgroup with less than 16.0 MiB left (/culprit_test.");
  }));
  // (The freezer itself interrupts calls that wait.)
  check_fine(run_alone("attach_target", {"computing"}, [](pid_t pid) {
    const ControlGroup group("freezer", pid);
    if (!group.set("freezer.state", "FROZEN", "cgroup.freeze", "1")) {
      WARN("not run: no cgroup can be frozen here");
      return;
    }
    const Finished attached = run_culprit({"attach", std::to_string(pid)});
    CHECK(group.set("freezer.state", "THAWED", "cgroup.freeze", "0"));
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "is frozen by its cgroup /culprit_test."));
    check_runs_alone(pid);
  }));
}

TEST_CASE("a seccomp filter that ends the program for a call of the library is read beforehand", "[attach]") {
  if (!may_trace() || getuid() != 0) return;
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver makes other calls");
    return;
  }
  std::vector<std::string> all_but_one = calls_of_library();
  all_but_one.erase(all_but_one.begin() + 4);
  check_fine(run_alone("attach_filtered", filtered("single"), [](pid_t pid) {
    check_refused(pid, "has a seccomp filter that ends it for calls of libculprit.so (openat, mprotect,");
  }));
  check_fine(run_alone("attach_filtered", filtered("cuda", all_but_one), [](pid_t pid) {
    check_refused(pid, "has a seccomp filter that ends it for calls of libculprit.so (fallocate): nothing was changed");
  }));
  check_fine(run_alone("attach_filtered", filtered("uneven"),
                       [](pid_t pid) { check_refused(pid, "has threads with different seccomp filters"); }));
  check_fine(run_alone("attach_filtered", filtered("strict"),
                       [](pid_t pid) { check_refused(pid, "is in seccomp's strict mode"); }));
  check_fine(run_alone("attach_signals", {"broker"},
                       [](pid_t pid) { check_refused(pid, "that traps calls of libculprit.so (openat)"); }));
}

TEST_CASE("a program whose filter allows what the library does is attached", "[attach]") {
  if (!may_trace() || getuid() != 0 || on_gpu()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  check_fine(run_alone("attach_filtered", filtered("cuda", calls_of_library()), [&](pid_t pid) {
    for (int i = 0; i < 3; ++i) {
      fs::remove(dump);
      const Finished attached = run_culprit({"attach", std::to_string(pid), "--out", dump});
      INFO(attached.err);
      CHECK(attached.exit_code == 0);
      tell(pid, 3);
      CHECK(run_culprit({"detach", std::to_string(pid)}).exit_code == 0);
    }
    check_runs_alone(pid);
  }));
  const std::vector<Group> leaks = read_report(dump).through("leak_after");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == 3);
}

// Its sleep is continued by restart_syscall() after a stop, for which the filter would end it: it is made again
// instead.
TEST_CASE("a thread that stops late is let go without a call that its filter forbids", "[attach]") {
  if (!may_trace() || getuid() != 0 || on_gpu()) return;
  const TemporaryFolder folder;
  check_fine(run_alone("attach_filtered", filtered("single", calls_of_library()), [&](pid_t pid) {
    const Finished attached =
        run_culprit({"attach", std::to_string(pid), "--out", folder.file("x.dump"), "--timeout", "60s"},
                    {{"LD_PRELOAD", subject_path("late_tracer.so").string()}, {"STOP_MS", "300"}});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    check_runs_alone(pid);
  }));
}

TEST_CASE("a seccomp filter that cannot be read is taken for a forbidding one", "[attach]") {
  if (!may_trace() || getuid() != 0 || on_gpu()) return;
  check_fine(run_alone("attach_filtered", filtered("single"), [](pid_t pid) {
    ProgramOptions options;
    options.environment = {{"LD_PRELOAD", ""}, {"CULPRIT_LIBRARY", library_path().string()}};
    options.before_exec = [] { prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN); };
    const Finished attached = run_program({culprit_path().string(), "attach", std::to_string(pid)}, options);
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "has a seccomp filter that culprit may not read"));
    check_runs_alone(pid);
  }));
}

TEST_CASE("a program without the room for a library is left alone", "[attach]") {
  if (!may_trace()) return;
  const auto with_limit = [](int resource, rlim_t limit, const std::string& because) {
    INFO(because);
    check_fine(run_alone("attach_target", {"computing"}, [&](pid_t pid) {
      rlimit changed = {limit, RLIM_INFINITY};
      rlimit before = {};
      REQUIRE(prlimit(pid, static_cast<__rlimit_resource>(resource), nullptr, &before) == 0);
      changed.rlim_max = before.rlim_max;
      REQUIRE(prlimit(pid, static_cast<__rlimit_resource>(resource), &changed, nullptr) == 0);
      check_refused(pid, because);
      REQUIRE(prlimit(pid, static_cast<__rlimit_resource>(resource), &before, nullptr) == 0);
    }));
  };
  with_limit(RLIMIT_AS, 1 << 20, "of addresses (ulimit -v)");
  with_limit(RLIMIT_DATA, 64 << 20, "of private memory (ulimit -d)");
  with_limit(RLIMIT_NOFILE, 3, "has all of its 3 descriptors open (ulimit -n)");
  with_limit(RLIMIT_FSIZE, 4096, "may write files of at most 4.00 KiB (ulimit -f)");
}

TEST_CASE("a program without /proc in its root is left alone", "[attach]") {
  if (!may_trace() || getuid() != 0) return;
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "tmp");
  check_fine(run_alone("attach_neighbours", {"jail", std::string(folder.path())},
                       [](pid_t pid) { check_refused(pid, "has no /proc in its root (chroot), which "); }));
}

TEST_CASE("a library of another name is not loaded", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string library = folder.file("recorder.so");
  fs::copy_file(library_path(), library);
  check_fine(run_alone("attach_target", {"apart"}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid)}, {{"CULPRIT_LIBRARY", library}});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "under this name, which must begin with libculprit.so"));
    CHECK_FALSE(contains(file_text("/proc/" + std::to_string(pid) + "/maps"), "recorder.so"));
  }));
}

TEST_CASE("a library that the program may not read is not loaded, and the message says why", "[attach]") {
  if (!may_trace() || getuid() != 0) return;
  const TemporaryFolder folder;
  const std::string library = folder.file("libculprit.so");
  fs::copy_file(library_path(), library);
  fs::permissions(folder.path(), fs::perms::owner_all);
  check_fine(run_alone("attach_neighbours", {"unprivileged"}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid)}, {{"CULPRIT_LIBRARY", library}});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "Permission denied (its user may not read that file, or a sandbox forbids it:"));
    check_runs_alone(pid);
  }));
}

// The dump would be made by that user.
TEST_CASE("a thread that has another user than the program is not borrowed", "[attach]") {
  if (!may_trace() || getuid() != 0) return;
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  check_fine(run_alone("attach_neighbours", {"user"}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--out", dump});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    struct stat facts = {};
    CHECK(stat(dump.c_str(), &facts) == 0);
    CHECK(facts.st_uid == 0);
    CHECK(run_culprit({"detach", std::to_string(pid)}).exit_code == 0);
  }));
}

TEST_CASE("no_new_privs does not hinder an attach", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  RunOptions options;
  options.preload = false;
  options.before_exec = [] { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); };
  options.when_ready = [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    const Finished attached = run_culprit({"attach", number, "--out", folder.file("x.dump")});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    CHECK(run_culprit({"detach", number}).exit_code == 0);
  };
  check_fine(run_preloaded("attach_fork", {}, options));
}

TEST_CASE("a program of musl is left alone", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string source = folder.file("program.c");
  std::ofstream(source) << "#include <stdio.h>\n"
                           "int main() { puts(\"ready\"); fflush(stdout); getchar(); puts(\"fine\"); }\n";
  const Finished compiled = run_program({"/usr/bin/env", "musl-gcc", source, "-o", folder.file("program")}, {});
  if (compiled.exit_code != 0) {
    WARN("skipped: there is no musl-gcc");
    return;
  }
  check_fine(run_alone(folder.file("program"), {},
                       [](pid_t pid) { check_refused(pid, "runs on musl, libculprit.so needs glibc"); }));
}

TEST_CASE("a program under valgrind is left alone", "[attach]") {
  if (!may_trace()) return;
  if (!fs::exists("/usr/bin/valgrind")) {
    WARN("skipped: there is no valgrind");
    return;
  }
  const Run run = run_alone("/usr/bin/valgrind", {"-q", "--tool=none", subject_path("attach_fork").string()},
                            [](pid_t pid) { check_refused(pid, "runs under valgrind"); });
  check_fine(run);
}

}  // namespace culprit::test
