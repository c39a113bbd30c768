// Programs that change their environment before their first CUDA call, or at that moment.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

Situation situation(const std::string& how) {
  Situation one{"environment", {how}};
  one.environment["RANK"] = "1";
  one.environment["WORLD_SIZE"] = "2";
  return one;
}

nlohmann::json process_of(const BothWays& runs) {
  INFO(runs.under.err);
  REQUIRE(runs.under.dumps.size() == 1);
  return read_report(runs.under.dump()).json.at("process");
}

std::size_t frames_of(const BothWays& runs) { return read_report(runs.under.dump()).leaks.at(0).stack.size(); }

}  // namespace

TEST_CASE("a program without an environment is recorded where it was said at its start", "[environment]") {
  for (const char* how : {"clearenv", "unset", "array", "null", "wild", "emptied", "fork", "fork-used"}) {
    INFO(how);
    Situation one = situation(how);
    // NVIDIA's driver reads the environment, and does not work in a child of an initialized parent.
    one.fake_driver_only = std::string(how).rfind("fork", 0) == 0 || how == std::string("wild");
    one.environment["GUEST_FIGURES"] = "";
    const BothWays runs = both_ways(one);
    if (!runs.ran) continue;
    CHECK(runs.alone.exit_code == 4);
    const bool both = std::string(how) == "fork-used";
    CHECK(runs.under.dumps.size() == (both ? 2 : 1));
    std::uint64_t leaks = 0;
    for (const std::filesystem::path& dump : runs.under.dumps) {
      const Report report = read_report(dump);
      leaks += report.leaked_count();
      CHECK(report.json.at("process").at("rank") == 1);
    }
    CHECK(leaks == 1);
  }
}

TEST_CASE("a variable that the program sets itself counts", "[environment]") {
  for (const char* how : {"rank", "rank-clear"}) {
    const BothWays runs = both_ways(situation(how));
    if (runs.ran) CHECK(process_of(runs).at("rank") == 5);
  }
  for (const auto& [how, depth] : {std::pair<const char*, std::size_t>{"depth", 3}, {"putenv", 4}, {"none", 22}}) {
    INFO(how);
    const BothWays runs = both_ways(situation(how));
    if (runs.ran) CHECK(frames_of(runs) >= depth);
    if (runs.ran && depth < 10) CHECK(frames_of(runs) == depth);
  }
  const BothWays off = both_ways(situation("off"));
  CHECK(off.under.dumps.empty());
  Situation on = situation("on");
  on.environment["CULPRIT_START"] = "signal";
  CHECK(both_ways(on).under.dumps.size() == 1);
}

TEST_CASE("a call fails that the program itself chose before its first call", "[environment]") {
  Situation one = situation("fail");
  const BothWays runs = both_ways(one);
  if (!runs.ran) return;
  CHECK(figure(runs.figures_alone, "failed") == 0);
  CHECK(figure(runs.figures_under, "failed") == 1);
}

TEST_CASE("a thread that changes the environment at the first call harms nothing", "[environment]") {
  for (int i = 0; i < 10; ++i) {
    Situation one = situation("storm");
    one.fake_driver_only = true;  // NVIDIA's reads the environment meanwhile
    one.arguments.push_back(std::to_string(i * 200));
    const BothWays runs = both_ways(one);
    if (!runs.ran) return;
    CHECK(process_of(runs).at("rank") == 1);
  }
}

}  // namespace culprit::test
