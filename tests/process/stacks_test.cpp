// A remembered stack is the real one: every hit compared with a real unwind.
#include "tests/catch.h"
#include "tests/process/run_preloaded.h"

namespace culprit::test {
namespace {

void check_storm(const char* rounds, const char* threads, const char* reload, long least) {
  RunOptions options;
  options.timeout_seconds = 3600;
  options.environment["CULPRIT_VERIFY_STACKS"] = "1";
  const Run run =
      run_preloaded("stack_storm", {subject_path("storm_plugin.so").string(), rounds, threads, reload}, options);
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
  check_storm("1000", "1", "64", 400);
}

TEST_CASE("remembered stacks are right in 16 threads", "[stacks]") { check_storm("150", "16", "64", 300); }

// Ten million captures take minutes: run with [storm] by hand and on the GPU machine.
TEST_CASE("remembered stacks stay right for ten million captures", "[.storm]") {
  check_storm("100000", "16", "4096", 10000000);
}

}  // namespace culprit::test
