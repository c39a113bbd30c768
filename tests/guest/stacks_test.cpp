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

TEST_CASE("what a hook leaves on a stack among the globals is no user of the driver", "[stacks]") {
  const BothWays runs = both_ways({"static_stack", {}});
  if (!runs.ran) return;
  const Report report = read_report(runs.under.dump());
  CHECK(report.json.at("summary").at("complete") == true);
  CHECK(report.json.value("unseen", nlohmann::json::array()).empty());
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

TEST_CASE("code without unwind information calls CUDA with any value in its registers", "[stacks][unwind]") {
  const BothWays runs = both_ways({"any_registers", {}});
  check_leaks_or_dropped(runs, 0);
}

TEST_CASE("stacks of code without unwind information are walked a few times, not at each call", "[stacks][unwind]") {
  for (const char* what : {"counter", "depth", "pointer", "switched"}) {
    Situation situation{"walked_once", {what, "2000"}};
    situation.environment["CULPRIT_VERIFY_STACKS"] = "1";
    const BothWays runs = both_ways(situation);
    check_leaks_or_dropped(runs, 0);
    if (!runs.ran) continue;
    INFO(what);
    const nlohmann::json summary = read_report(runs.under.dump()).json.at("summary");
    // 4,000 allocations, 4,000 frees.
    CHECK(summary.at("stacks_verified").get<int>() >= 3900);
    CHECK(summary.at("stack_mismatches") == 0);
  }
}

}  // namespace culprit::test
