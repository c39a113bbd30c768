// Memory destroyed with its context is reported as released implicitly, with the call that ended the context.
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

// The stack of the call that ended the context, from a leak's evidence.
std::vector<Frame> teardown_stack(const Group& group) {
  for (const nlohmann::json& evidence : group.json.at("evidence")) {
    if (evidence.at("type") == "context-teardown") return read_stack(evidence.at("stack"));
  }
  return {};
}

void check_released(const Group& group, std::uint64_t bytes, const std::string& allocated_in,
                    const std::string& released_in) {
  INFO(group.json.dump(1));
  CHECK(group.bytes == bytes);
  CHECK(group.count == 1);
  CHECK(group.cause == "context-teardown");
  CHECK(group.has_frame(allocated_in));
  CHECK(has_frame(teardown_stack(group), released_in));
}

}  // namespace

TEST_CASE("memory is released implicitly by the call that ends its context", "[teardown]") {
  struct Row {
    const char* how;
    const char* released_in;
  };
  const Row rows[] = {{"destroy", "destroy_context"}, {"reset", "reset_primary"},     {"release-both", "release_last"},
                      {"reset-old", "reset_old"},     {"release-old", "release_old"}, {"green", "destroy_green"}};
  for (const Row& row : rows) {
    const Run run = run_preloaded("teardown", {row.how});
    INFO(row.how << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    REQUIRE(report.leaks.size() == 1);
    check_released(report.leaks[0], 11001, "allocate_here", row.released_in);
    CHECK(report.error_count() == 0);
  }
}

TEST_CASE("releasing one of two references tears nothing down", "[teardown]") {
  const Run run = run_preloaded("teardown", {"release-one"});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].bytes == 11001);
  CHECK(report.leaks[0].is_unexplained());
}

TEST_CASE("memory that is held at exit keeps its holder when a destructor releases its context", "[teardown]") {
  for (const char* how : {"thread-local", "static", "main"}) {
    const Run run = run_preloaded("release_at_end", {how});
    INFO(how << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].bytes == 11001);
    CHECK(report.leaks[0].cause == (std::string(how) == "main" ? "context-teardown" : "held"));
    CHECK(run_culprit({"report", run.dump()}).exit_code == 0);
  }
}

TEST_CASE("cudaDeviceReset releases earlier allocations and no later ones", "[teardown]") {
  const Run run = run_preloaded("device_reset");
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() == 2);
  const std::vector<Group> before = report.through("allocate_before");
  const std::vector<Group> after = report.through("allocate_after");
  REQUIRE(before.size() == 1);
  REQUIRE(after.size() == 1);
  check_released(before[0], 11001, "allocate_before", "reset_here");
  CHECK(after[0].bytes == 20001);
  CHECK(after[0].is_unexplained());
}

}  // namespace culprit::test
