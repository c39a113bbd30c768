// Situation 2: small stacks.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

// The stack that a hooked call may use in addition to the driver's own use.
constexpr long long kBudget = 2048;

}  // namespace

TEST_CASE("threads with small stacks leave their neighbour's memory alone", "[stacks]") {
  for (const char* kib : {"16", "20", "24", "32", "52"}) {
    Situation situation{"small_threads", {kib}};
    situation.fake_driver_only = std::string(kib) == "16";  // NVIDIA's takes more
    both_ways(situation);
  }
}

TEST_CASE("coroutines with small stacks leave their neighbour's memory alone", "[stacks]") {
  for (const char* kib : {"16", "32"}) both_ways({"small_coroutines", {kib}});
}

TEST_CASE("a handler on an alternate stack of 8 KiB may call CUDA", "[stacks]") {
  for (const char* when : {"later", "first", "crash"}) {
    Situation situation{"alt_stack_handler", {when}};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("a call takes at most 2 KiB of stack more than the driver alone", "[stacks]") {
  const BothWays runs = both_ways({"painted_stack", {}});
  CHECK(runs.figures_alone.size() == 17);
  for (const auto& [name, alone] : runs.figures_alone) {
    REQUIRE(runs.figures_under.count(name) == 1);
    INFO(name << ": " << alone << " bytes alone, " << runs.figures_under.at(name) << " under the library");
    CHECK(alone > 0);
    CHECK(runs.figures_under.at(name) - alone <= kBudget);
  }
}

}  // namespace culprit::test
