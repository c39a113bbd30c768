// Programs with limited address space or locked memory get as much as without the library, less a documented share.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/capability.h>

#include <sstream>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

Run run_limited(const char* mode, const char* count, bool preload, int resource, rlim_t bytes) {
  RunOptions options;
  options.preload = preload;
  options.before_exec = [resource, bytes] {
    prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);  // root has no limit of locked memory
    const rlimit limit = {bytes, bytes};
    setrlimit(resource, &limit);
  };
  return run_preloaded("small_memory", {mode, count}, options);
}

void check_all_recorded(const Run& run, std::uint64_t count) {
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == count + 2);
  CHECK(report.json.at("summary").at("dropped") == 0);
}

}  // namespace

TEST_CASE("a program with a limited address space keeps nearly all of it", "[small memory]") {
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver needs more addresses than such limits leave");
    return;
  }
  for (const rlim_t mib : {1024, 4096, 16384}) {
    INFO("limit " << mib << " MiB");
    const rlim_t limit = mib << 20;
    const Run without = run_limited("share", "50000", false, RLIMIT_AS, limit);
    const Run with = run_limited("share", "50000", true, RLIMIT_AS, limit);
    INFO("stderr: " << with.err);
    REQUIRE(without.exit_code == 0);
    REQUIRE(with.exit_code == 0);
    std::istringstream before(without.out), after(with.out);
    // Beside the share: the library itself, its program and data (2 MiB and 1 MiB).
    const std::uint64_t ours = (limit / 16 + (4u << 20)) >> 10;
    for (int i = 0; i < 2; ++i) {
      std::uint64_t alone = 0, under = 0;
      REQUIRE(before >> alone);
      REQUIRE(after >> under);
      CHECK(under + ours >= alone);
    }
    check_all_recorded(with, 50000);
  }
}

TEST_CASE("when its share is used up, culprit records no more and says so", "[small memory]") {
  const Run without = run_limited("share", "50000", false, RLIMIT_DATA, 32u << 20);
  const Run run = run_limited("share", "50000", true, RLIMIT_DATA, 32u << 20);
  if (without.exit_code != 0) {
    WARN("skipped: the driver needs more private memory");
    return;
  }
  INFO("stderr: " << run.err);
  CHECK(run.exit_code == 0);
  CHECK(has(run.err, "recording stopped: no memory for the index"));
  const Report report = read_report(run.dump());
  const std::uint64_t dropped = report.json.at("summary").at("dropped_allocations").get<std::uint64_t>();
  CHECK(dropped > 0);
  CHECK(report.leaked_count() + dropped == 50002);
}

TEST_CASE("a limit of private memory is the program's own", "[small memory]") {
  const Run without = run_limited("share", "50000", false, RLIMIT_DATA, 256u << 20);
  const Run with = run_limited("share", "50000", true, RLIMIT_DATA, 256u << 20);
  INFO("stderr: " << with.err);
  if (without.exit_code != 0) {
    WARN("skipped: the driver needs more private memory");
    return;
  }
  CHECK(with.exit_code == 0);
  std::uint64_t alone = 0, under = 0;
  std::istringstream(without.out) >> alone;
  std::istringstream(with.out) >> under;
  CHECK(under + (20u << 10) >= alone);
  check_all_recorded(with, 50000);
}

TEST_CASE("a program that locks its memory may lock as much as without the library", "[small memory]") {
  const Run without = run_limited("lock", "5000", false, RLIMIT_MEMLOCK, 8u << 20);
  const Run with = run_limited("lock", "5000", true, RLIMIT_MEMLOCK, 8u << 20);
  INFO("stderr: " << with.err);
  if (without.exit_code != 0) {
    WARN("skipped: the driver needs more locked memory");
    return;
  }
  CHECK(with.exit_code == 0);
  std::istringstream before(without.out), after(with.out);
  for (int i = 0; i < 2; ++i) {
    std::uint64_t alone = 0, under = 0;
    int given_alone = 0, given_under = 0;
    REQUIRE(before >> alone >> given_alone);
    REQUIRE(after >> under >> given_under);
    CHECK(under <= alone + 256);  // for libc's heap and small tables of the library
    CHECK(given_under == given_alone);
  }
  check_all_recorded(with, 5000);
}

}  // namespace culprit::test
