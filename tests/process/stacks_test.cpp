// A remembered stack is the real one: every hit compared with a real unwind.
#include "tests/catch.h"
#include "tests/process/run_preloaded.h"

namespace culprit::test {
namespace {

void check_storm(const char* rounds, const char* threads, long least) {
  RunOptions options;
  options.environment["CULPRIT_VERIFY_STACKS"] = "1";
  const Run run = run_preloaded("stack_storm", {subject_path("storm_plugin.so").string(), rounds, threads}, options);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 0);
  const nlohmann::json& summary = report.json.at("summary");
  CHECK(summary.at("stacks_verified").get<long>() > least);
  CHECK(summary.at("stack_mismatches") == 0);
  CHECK(summary.at("context_mismatches") == 0);
}

}  // namespace

TEST_CASE("remembered stacks are right in recursion, alloca, exceptions, generators, signals, dlclose", "[stacks]") {
  check_storm("4000", "1", 400);
}

TEST_CASE("remembered stacks are right in 16 threads", "[stacks]") { check_storm("500", "16", 300); }

// Ten million captures take minutes: run with [storm] by hand and on the GPU machine.
TEST_CASE("remembered stacks stay right for ten million captures", "[.storm]") { check_storm("350000", "16", 5000000); }

}  // namespace culprit::test
