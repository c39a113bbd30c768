// Situation 6: limits of memory. NVIDIA's driver reserves more address space than any of these limits leaves.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

constexpr rlim_t kMiB = 1 << 20;

Situation limited(const char* when, const char* amount, int resource, rlim_t bytes) {
  Situation situation{"address_space", {when, amount}};
  situation.fake_driver_only = true;
  situation.before_exec = [resource, bytes] {
    prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);  // root's memory has no limit otherwise
    const rlimit bound = {bytes, bytes};
    setrlimit(static_cast<__rlimit_resource>(resource), &bound);
  };
  return situation;
}

}  // namespace

TEST_CASE("a program that needs 700 MiB of a limit of 1 GiB gets them", "[memory]") {
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    for (const char* when : {"after", "before"})
      check_leaks_or_dropped(both_ways(limited(when, "700", resource, 1024 * kMiB)), 2);
  }
}

TEST_CASE("a program that needs 900 MiB of a limit of 1 GiB gets them", "[memory]") {
  for (const char* when : {"after", "before"}) both_ways(limited(when, "900", RLIMIT_AS, 1024 * kMiB));
}

TEST_CASE("a program that needs 48 MiB of a limit of 96 MiB gets them", "[memory]") {
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    for (const char* when : {"after", "before"}) both_ways(limited(when, "48", resource, 96 * kMiB));
  }
}

TEST_CASE("a gate fails where a program leaves the recorder no memory", "[memory]") {
  // From a limit that refuses the first page to one that has room for a part of the tables.
  for (const char* resource : {"data", "space"}) {
    for (const char* kib : {"0", "64", "512", "2048", "16384"}) {
      Situation situation{"address_space", {resource, kib}};
      situation.fake_driver_only = true;
      const BothWays runs = both_ways(situation);
      check_leaks_or_dropped(runs, 2);
      if (!runs.ran) continue;
      const Run gate = run_at_gate(situation);
      INFO(resource << " " << kib << ": " << gate.err);
      CHECK((gate.exit_code == 1 || gate.exit_code == 4));
    }
  }
}

TEST_CASE("64 threads live under a small limit", "[memory]") {
  both_ways(limited("threads", "64", RLIMIT_AS, 64 * kMiB));
}

TEST_CASE("a program that locks all its memory can lock what it needs", "[memory]") {
  // The default for users other than root since Linux 5.16.
  both_ways(limited("locked", "2", RLIMIT_MEMLOCK, 8 * kMiB));
}

}  // namespace culprit::test
