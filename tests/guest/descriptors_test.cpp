// Situation 5: descriptors.
#include <sys/resource.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

std::function<void()> limit_descriptors(rlim_t count) {
  return [count] {
    const rlimit bound = {count, count};
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
    check_leaks_or_dropped(both_ways(situation), 1);
    situation.arguments = {"fork"};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("a program that uses up all descriptors gets as many as without the library", "[descriptors]") {
  for (const char* when : {"before", "after", "between"}) {
    Situation situation{"used_up_descriptors", {when}};
    situation.fake_driver_only = true;
    // Below a limit of 64 the library keeps no descriptor; above it a program that uses them all up gets one fewer.
    situation.before_exec = limit_descriptors(63);
    both_ways(situation);
  }
}

TEST_CASE("a program with a very small limit of descriptors runs", "[descriptors]") {
  for (const rlim_t limit : {8, 12, 16}) {
    INFO("RLIMIT_NOFILE " << limit);
    Situation situation{"closed_descriptors", {}};
    situation.fake_driver_only = true;
    // The loader needs one to open libraries with.
    situation.before_exec = limit_descriptors(limit);
    both_ways(situation);
  }
}

}  // namespace culprit::test
