// Situation 11: modes of the kernel that few programs ask for, and another identity of the process after its first
// calls.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

void check_mode(const std::string& mode) {
  for (const bool late : {false, true}) {
    INFO(mode << (late ? ", after the first calls" : ""));
    Situation situation{"kernel_modes", {mode}};
    if (late) situation.arguments.push_back("late");
    situation.fake_driver_only = true;
    const BothWays runs = both_ways(situation);
    if (!runs.ran) continue;
    if (runs.alone.out == "not here\n") {
      left_out(mode, "this kernel or processor lacks it");
      continue;
    }
    // A process without descriptors has no dump.
    if (mode != "no-files" || late) check_leaks_or_dropped(runs, late ? 3 : 2);
  }
}

}  // namespace

TEST_CASE("a program whose threads may not read the time stamp counter lives", "[modes]") { check_mode("no-counter"); }

TEST_CASE("a program whose threads may not use cpuid lives", "[modes]") { check_mode("no-cpuid"); }

TEST_CASE("a program whose processor checks alignment lives", "[modes]") { check_mode("alignment"); }

TEST_CASE("a program that calls with the direction flag set lives", "[modes]") { check_mode("direction"); }

TEST_CASE("other modes of a process change nothing", "[modes]") {
  for (const char* mode : {"not-dumpable", "no-new-privileges", "no-writable-code", "late-timers", "no-files",
                           "no-huge-pages", "locked", "idle", "signals-blocked"})
    check_mode(mode);
}

TEST_CASE("pairs with known stacks make no system call under strict seccomp", "[modes]") {
  // The kernel kills at the first one, and at the first reading of the time stamp counter. Five runs: where the stack
  // lies differs, and with it which calls a mistake would make.
  for (int i = 0; i < 5; ++i) {
    Situation situation{"strict_seccomp", {"known"}};
    situation.fake_driver_only = true;
    const BothWays runs = both_ways(situation);
    if (!runs.ran) return;
    CHECK(runs.alone.exit_code == 0);
    check_leaks_or_dropped(runs, 1);
  }
}

TEST_CASE("a program under strict seccomp dies where it dies alone", "[modes]") {
  Situation situation{"strict_seccomp", {"dies"}};
  situation.fake_driver_only = true;
  const BothWays runs = both_ways(situation);
  if (runs.ran) CHECK(runs.alone.signal == SIGKILL);
}

namespace {

constexpr std::uint64_t kAllocations = 20000;  // several times what fits into the dump's first chunk

// The report's first line says how many allocations are missing, from when on, and why.
void check_said(const Report& report) {
  const nlohmann::json& summary = report.json.at("summary");
  CHECK(summary.at("complete") == false);
  CHECK(report.leaked_count() + summary.at("dropped").get<std::uint64_t>() == kAllocations);
  REQUIRE(summary.at("not_known").size() == 1);
  const std::string said = summary.at("not_known").at(0);
  CHECK(has(said, " allocations not recorded, from "));
  CHECK((has(said, "its root directory") || has(said, "its user or its rights")));
}

void check_identity(const std::string& how, bool kept) {
  INFO(how << (kept ? ", a descriptor of the dump is kept" : ""));
  const TemporaryFolder folder;
  Situation situation{"other_identity", {how, folder.path().string(), std::to_string(kAllocations)}};
  situation.fake_driver_only = true;
  situation.working_directory = folder.path().string();
  situation.before_exec = [kept] {
    rlimit bound;
    getrlimit(RLIMIT_NOFILE, &bound);
    bound.rlim_max = bound.rlim_max < 4096 ? bound.rlim_max : 4096;
    bound.rlim_cur = kept ? bound.rlim_max / 2 : bound.rlim_max;
    setrlimit(RLIMIT_NOFILE, &bound);
  };
  const BothWays runs = both_ways(situation);
  if (!runs.ran) return;
  if (runs.alone.out == "not here\n") return left_out(how, "this kernel does not permit it");
  if (how == "deleted") {
    // Root's right to raise limits keeps the descriptor in any case; then the dump grows without a name.
    const bool warned =
        has(runs.under.err, "culprit: warning: recording stopped: the dump is no longer under its name");
    if (kept) CHECK_FALSE(warned);
    return;
  }
  REQUIRE(runs.under.dumps.size() == 1);
  const Report report = read_report(runs.under.dump());
  if (report.leaked_count() != kAllocations) check_said(report);
  if (kept && how != "closed-chroot") CHECK(report.leaked_count() == kAllocations);
}

}  // namespace

TEST_CASE("after another identity of the process the dump grows, or the report says from when on it did not",
          "[modes]") {
  if (geteuid() != 0) return not_run_here("only root may change its root directory");
  for (const bool kept : {true, false}) {
    for (const char* how : {"chroot", "setuid", "setuid-chroot", "capabilities", "namespaces", "user", "pivot",
                            "deleted", "closed", "closed-chroot", "landlock", "no-files"})
      check_identity(how, kept);
  }
}

}  // namespace culprit::test
