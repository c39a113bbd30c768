// Situation 5: descriptors.
#include <sys/resource.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

std::function<void()> limit_descriptors(rlim_t soft, rlim_t hard) {
  return [soft, hard] {
    const rlimit bound = {soft, hard};
    setrlimit(RLIMIT_NOFILE, &bound);
  };
}

}  // namespace

TEST_CASE("a program started with standard descriptors closed keeps its numbers and its output", "[descriptors]") {
  for (unsigned closed = 0; closed < 8; ++closed) {
    INFO("closed: " << closed);
    Situation situation{"closed_descriptors", {}};
    situation.before_exec = [closed] {
      for (int i = 0; i < 3; ++i) {
        if ((closed >> i & 1) != 0) close(i);
      }
    };
    // NVIDIA's driver opens files of its own while the program does, and takes the lowest numbers, too.
    situation.fake_driver_only = closed == 7;
    check_leaks_or_dropped(both_ways(situation), 1);
    situation.arguments = {"fork"};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("a program that uses up all descriptors gets as many as without the library", "[descriptors]") {
  struct Limits {
    rlim_t soft, hard;
  };
  for (const Limits limits :
       {Limits{63, 63}, Limits{64, 64}, Limits{256, 256}, Limits{1024, 1024}, Limits{40, 4096}, Limits{1024, 4096}}) {
    for (const char* when : {"before", "after", "between"}) {
      INFO("RLIMIT_NOFILE " << limits.soft << " of " << limits.hard << ", used up " << when);
      Situation situation{"used_up_descriptors", {when}};
      situation.fake_driver_only = true;
      situation.before_exec = limit_descriptors(limits.soft, limits.hard);
      const BothWays ended = both_ways(situation);
      // Above the program's limit there is room for the dump.
      if (!ended.ran || limits.soft == limits.hard) continue;
      const Report report = read_report(ended.under.dump());
      CHECK(report.leaked_count() == 1);
      CHECK(report.json.at("summary").at("complete") == true);
    }
  }
}

TEST_CASE("a program with a very small limit of descriptors runs", "[descriptors]") {
  // With fewer, the loader has no descriptor for the program's own libraries.
  for (const rlim_t limit : {8, 12, 16}) {
    INFO("RLIMIT_NOFILE " << limit);
    Situation situation{"closed_descriptors", {}};
    situation.fake_driver_only = true;
    situation.before_exec = limit_descriptors(limit, limit);
    both_ways(situation);
  }
}

}  // namespace culprit::test
