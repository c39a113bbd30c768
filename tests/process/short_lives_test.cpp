// CUDA events, streams and stream-ordered memory have short ways of their own in the library (short_lives.h and
// short_memory.cpp in interpose/events/), which must count like the general one.
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
      (kind == "event" ? "cuEventDestroy_v2" : "cuStreamDestroy_v2") + std::string(":303:700");
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
    check_counts(report, 308, 307);
  }
  SECTION("until it is asked again") {
    const Report report = read_report(run_preloaded("short_lives", {kind, "refused", "retry"}, options).dump());
    CHECK(live_of(report, kind, "make_here") == 0);
    check_counts(report, 308, 308);
  }
}

TEST_CASE("memory that is allocated and freed over and over, out of order and elsewhere, is all counted", "[events]") {
  RunOptions options;
  // Without stacks, or with stacks that are walked each time.
  const std::string variable = GENERATE("", "CULPRIT_DEPTH", "CULPRIT_VERIFY_STACKS");
  if (!variable.empty()) options.environment[variable] = variable == "CULPRIT_DEPTH" ? "0" : "1";
  const bool large = GENERATE(false, true);
  const std::uint64_t bytes = large ? 64 << 20 : 4096;
  const Run run = run_preloaded("short_lives", {large ? "large" : "memory", "churn"}, options);
  INFO(variable << " " << bytes << ": " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  const nlohmann::json& summary = report.json.at("summary");
  INFO(summary.dump(1));
  constexpr int kMade = 1000 + 700 + 3 + 40 + 2 + 10 + 3;
  CHECK(summary.at("allocations") == kMade);
  CHECK(summary.at("frees") == kMade - 5);
  CHECK(summary.at("unknown_frees") == 0);
  CHECK(report.leaked_bytes() == 5 * bytes);
  const nlohmann::json& device = report.json.at("devices").at(0);
  CHECK(device.at("live_bytes") == 5 * bytes);
  // There are two threads, and each may hold 4 MiB back.
  CHECK(device.at("peak_live_bytes") >= 7 * bytes);
  CHECK(device.at("peak_live_bytes") <= 7 * bytes + (4 << 20));
  CHECK(report.error_count() == 0);
  if (variable != "CULPRIT_DEPTH") CHECK(live_of(report, "stream-ordered", "leave_here") == 5);
}

TEST_CASE("memory that the driver refuses to free is still there", "[events]") {
  if (on_gpu()) {
    WARN("skipped: has the simulator refuse a call");
    return;
  }
  RunOptions options;
  options.environment["SIMCUDA_FAIL"] = "cuMemFreeAsync:303:700";
  const bool again = GENERATE(false, true);
  std::vector<std::string> words = {GENERATE("memory", "large"), "refused"};
  if (again) words.push_back("retry");
  const Report report = read_report(run_preloaded("short_lives", words, options).dump());
  CHECK(live_of(report, "stream-ordered", "end_in_vain") == (again ? 0 : 1));
  CHECK(live_of(report, "stream-ordered", "make_here") == (again ? 0 : 1));
  REQUIRE(report.errors("failed-free").size() == 1);
  CHECK(has_frame(read_stack(report.errors("failed-free")[0].at("stack")), "end_in_vain"));
  CHECK(report.json.at("summary").at("frees") == (again ? 308 : 307));
}

TEST_CASE("the report of memory that is freed twice, after many others, has both stacks", "[events]") {
  const Report report = read_report(run_preloaded("short_lives", {"memory", "twice"}).dump());
  const std::vector<nlohmann::json> errors = report.errors("double-free");
  REQUIRE(errors.size() == 1);
  CHECK(has_frame(read_stack(errors[0].at("stack")), "end_again"));
  CHECK(has_frame(read_stack(errors[0].at("allocation_stack")), "make_here"));
  CHECK(has_frame(read_stack(errors[0].at("free_stack")), "twice"));
  CHECK(report.leaks.empty());
  CHECK(report.json.at("devices").at(0).at("peak_live_bytes") == 4096);
}

}  // namespace culprit::test
