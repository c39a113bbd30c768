// A program whose dump cannot be made where it should be is known to `culprit run`: the gate is not green.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <functional>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

namespace fs = std::filesystem;

namespace {

struct Elsewhere {
  Run run;
  std::shared_ptr<TemporaryFolder> folder;  // the command's TMPDIR, and the folder that the program is given
};

// A filter that allows everything, as each container has one.
void allow_all_calls() {
  sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {1, allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(125);
}

// `given`: options besides --fail-on. Others may search the folder, as /tmp.
Elsewhere run_elsewhere(const std::string& how, const std::vector<std::string>& given = {},
                        const std::function<void()>& before = nullptr) {
  const auto folder = std::make_shared<TemporaryFolder>();
  fs::permissions(folder->path(), fs::perms::all);
  RunOptions options;
  options.environment["TMPDIR"] = folder->path().string();
  options.before_exec = before;
  std::vector<std::string> words = {"--fail-on", "leaks"};
  words.insert(words.end(), given.begin(), given.end());
  return {culprit_run(words, {"elsewhere", how, folder->path().string()}, options), folder};
}

// True, with a message, where the program may not do that.
bool is_forbidden(const Elsewhere& one) {
  if (!has(one.run.out, "not permitted")) return false;
  WARN("skipped: needs root");
  return true;
}

void check_known(const Elsewhere& one, const std::string& reason) {
  INFO(one.run.err);
  CHECK(one.run.exit_code == 4);
  CHECK(has(one.run.err, "NOT KNOWN: "));
  CHECK(has(one.run.err, reason));
  CHECK(has(one.run.err, "elsewhere"));
  CHECK(fs::is_empty(one.folder->path()));  // nothing stays behind
}

}  // namespace

TEST_CASE("a process that gave up root, took another root directory or has other mounts is known to the run",
          "[verdict][elsewhere]") {
  if (on_gpu()) return;  // NVIDIA's driver needs its own files
  for (const auto& [how, reason] : {std::pair<const char*, const char*>{"setuid", "Permission denied"},
                                    {"chroot", "No such file or directory"},
                                    {"mount", "No such file or directory"}}) {
    for (const bool filtered : {false, true}) {
      INFO(how << (filtered ? ", with a filter that the command has, too" : ""));
      const Elsewhere one = filtered ? run_elsewhere(how, {}, allow_all_calls) : run_elsewhere(how);
      if (!is_forbidden(one)) check_known(one, reason);
    }
  }
}

TEST_CASE("a process that no message can come from is found while it runs", "[verdict][elsewhere]") {
  if (on_gpu()) return;
  for (const auto& [how, reason] : {std::pair<const char*, const char*>{"network", "No such file or directory"},
                                    {"files", "Too many open files"}}) {
    INFO(how);
    const Elsewhere one = run_elsewhere(how);
    if (!is_forbidden(one)) check_known(one, reason);
  }
}

TEST_CASE("a process that outlives the command before its first call is known to the run", "[verdict][elsewhere]") {
  if (on_gpu()) return;
  const Elsewhere one = run_elsewhere("daemon");
  check_known(one, "runs on after the command");
  usleep(2500000);  // its first call comes now, and makes no folder
  CHECK(fs::is_empty(one.folder->path()));
}

TEST_CASE("a dump that was made where the run does not see it is known to be missing", "[verdict][elsewhere]") {
  if (on_gpu()) return;
  const TemporaryFolder kept;
  const Elsewhere one = run_elsewhere("chroot", {"--out", kept.file("here/%p.dump")});
  if (is_forbidden(one)) return;
  INFO(one.run.err);
  CHECK(one.run.exit_code == 4);
  CHECK(has(one.run.err, "recorded into " + kept.file("here/")));
}

TEST_CASE("a process that gave up root and may write its dump is recorded", "[verdict][elsewhere]") {
  if (on_gpu()) return;
  const TemporaryFolder kept;
  fs::permissions(kept.path(), fs::perms::all);
  const Elsewhere one = run_elsewhere("setuid", {"--out", kept.file("%p.dump")});
  if (is_forbidden(one)) return;
  INFO(one.run.err);
  CHECK(one.run.exit_code == 1);
  CHECK(has(one.run.err, "LEAKED 10.7 KiB"));
  CHECK_FALSE(has(one.run.err, "NOT KNOWN"));
}

TEST_CASE("without the command one message says that nothing is recorded", "[elsewhere]") {
  if (on_gpu()) return;
  const TemporaryFolder folder;
  RunOptions options;
  options.environment["CULPRIT_OUT"] = "/proc/nowhere/a.dump";
  const Run run = run_preloaded("driver_leak_one", {}, options);
  const std::string message = "nothing is recorded";
  REQUIRE(has(run.err, message));
  CHECK(run.err.find(message) == run.err.rfind(message));
  const Run forks = run_preloaded("fork_child", {}, options);
  INFO(forks.err);
  CHECK(forks.err.find(message) == forks.err.rfind(message));
}

TEST_CASE("a process in which the loader maps the library at that moment is not one without a dump", "[elsewhere]") {
  const Run run = culprit_run({}, {"half_loaded"});
  INFO(run.err);
  CHECK(run.out == "mapped\n");
  CHECK_FALSE(has(run.err, "no dump could be made"));
}

}  // namespace culprit::test
