// Situation 3: children of every kind.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {

TEST_CASE("children forked while threads walk new stacks load libraries, throw and call CUDA", "[fork]") {
  both_ways({"fork_storm", {on_gpu() ? "plain" : "cuda"}});
}

TEST_CASE("fork in a handler that interrupts hooks gives a child that can call CUDA", "[fork]") {
  for (const char* how : {"fork", "_Fork", "clone"}) {
    Situation situation{"fork_in_handler", {how}};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("vfork, posix_spawn and clone leave the parent's recording whole", "[fork]") {
  for (const bool cuda : {false, true}) {
    Situation situation{"vfork_spawn", {}};
    if (cuda) situation.arguments.push_back("cuda");
    situation.fake_driver_only = cuda;
    const BothWays runs = both_ways(situation);
    check_leaks_or_dropped(runs, 1);
  }
}

}  // namespace culprit::test
