// CUDA events and streams have a fast path of their own in the library (interpose/events/short_lives.h), which must
// count like the general one.
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

std::uint64_t live_of(const Report& report, const std::string& kind, const std::string& function) {
  std::uint64_t live = 0;
  for (const Group& group : report.through(function)) {
    CHECK(group.kind == kind);
    live += group.count;
  }
  return live;
}

void check_counts(const Report& report, std::uint64_t made, std::uint64_t freed) {
  const nlohmann::json& summary = report.json.at("summary");
  INFO(summary.dump(1));
  CHECK(summary.at("objects") == made);
  CHECK(summary.at("object_frees") == freed);
  CHECK(summary.at("unknown_frees") == 0);
}

}  // namespace

TEST_CASE("events and streams that are made and ended over and over, out of order and elsewhere, are all counted",
          "[events]") {
  const std::string kind = GENERATE("event", "stream");
  for (const char* verify : {"0", "1"}) {
    RunOptions options;
    options.environment["CULPRIT_VERIFY_STACKS"] = verify;
    const Run run = run_preloaded("short_lives", {kind, "churn"}, options);
    INFO("stderr: " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    CHECK(report.leaks.empty());
    CHECK(report.error_count() == 0);
    CHECK(live_of(report, kind, "leave_here") == 5);
    CHECK(live_of(report, kind, "make_here") == 5);
  }
}

TEST_CASE("an event or a stream that the driver refuses to destroy is still there", "[events]") {
  if (on_gpu()) {
    WARN("skipped: has the simulator refuse a call");
    return;
  }
  const std::string kind = GENERATE("event", "stream");
  RunOptions options;
  options.environment["SIMCUDA_FAIL"] =
      (kind == "event" ? "cuEventDestroy_v2" : "cuStreamDestroy_v2") + std::string(":3:700");
  SECTION("permanently") {
    const Run run = run_preloaded("short_lives", {kind, "refused"}, options);
    INFO("stderr: " << run.err);
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    CHECK(live_of(report, kind, "end_in_vain") == 1);
    CHECK(live_of(report, kind, "make_here") == 1);
    REQUIRE(report.errors("failed-free").size() == 1);
    CHECK(report.error_count() == 1);
    CHECK(has_frame(read_stack(report.errors("failed-free")[0].at("stack")), "end_in_vain"));
    check_counts(report, 8, 7);
  }
  SECTION("until it is asked again") {
    const Report report = read_report(run_preloaded("short_lives", {kind, "refused", "retry"}, options).dump());
    CHECK(live_of(report, kind, "make_here") == 0);
    check_counts(report, 8, 8);
  }
}

}  // namespace culprit::test
