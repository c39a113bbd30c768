// The holders of memory at the peak, and at a failed allocation: recorded by the library, shown by the report.
#include <map>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

constexpr std::uint64_t kBreakdownMiB = 1 << 20;

// Bytes and count of each function in a breakdown.
std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_function(const nlohmann::json& breakdown) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> result;
  for (const nlohmann::json& entry : breakdown.at("stacks")) {
    const std::string function = entry.at("stack").at(0).at("function");
    result[function.substr(0, function.find('('))] = {entry.at("bytes"), entry.at("count")};
  }
  return result;
}

}  // namespace

TEST_CASE("the peak of recorded memory is exact with one thread, however short it is", "[peak]") {
  const Run run = run_preloaded("peak", {"moment"});
  REQUIRE(run.exit_code == 0);
  CHECK(read_report(run.dump()).json["devices"][0]["peak_live_bytes"] == 192 * 1024 * 1024 + 100 * 1000);
}

TEST_CASE("the peak of recorded memory is right within 4 MiB a thread", "[peak]") {
  const Run run = run_preloaded("peak", {"threads"});
  REQUIRE(run.exit_code == 0);
  const std::int64_t peak = read_report(run.dump()).json["devices"][0]["peak_live_bytes"];
  CHECK(peak >= 3 << 20);
  CHECK(peak <= 12 << 20);
}

TEST_CASE("memory that was live at the peak is known although it was freed", "[breakdowns]") {
  const Run run = run_preloaded("peak");
  const Report report = read_report(run.dump());
  CHECK(report.leaked_bytes() == kBreakdownMiB);
  REQUIRE(report.json.at("pictures").size() == 1);
  const nlohmann::json& peak = report.json.at("pictures")[0];
  CHECK(peak.at("reason") == "peak");
  CHECK(peak.at("device") == 0);
  CHECK(peak.at("live_bytes") == 192 * kBreakdownMiB);
  CHECK(peak.at("live_allocations") == 3);
  const auto functions = by_function(peak);
  REQUIRE(functions.size() == 2);
  CHECK(functions.at("hold_weights") == std::make_pair(128 * kBreakdownMiB, std::uint64_t{1}));
  CHECK(functions.at("hold_activations") == std::make_pair(64 * kBreakdownMiB, std::uint64_t{2}));
  CHECK(peak.at("others").at("bytes") == 0);
}

TEST_CASE("an allocation that finds no memory leaves a breakdown of the memory in use", "[breakdowns]") {
  const Run run = run_preloaded("peak", {"more"});
  const Report report = read_report(run.dump());
  REQUIRE(report.json.at("pictures").size() == 2);
  const nlohmann::json& failure = report.json.at("pictures")[0];
  CHECK(failure.at("reason") == "out-of-memory");
  CHECK(failure.at("api") == "cudaMalloc");
  CHECK(failure.at("asked_bytes") == std::uint64_t{1} << 46);
  CHECK(failure.at("times") == 2);
  CHECK(has_frame(read_stack(failure.at("stack")), "ask_too_much"));
  CHECK(failure.at("live_bytes") == 65 * kBreakdownMiB);
  CHECK(failure.at("memory").at("total_bytes") > 65 * kBreakdownMiB);
  const auto functions = by_function(failure);
  CHECK(functions.at("hold_activations").first == 64 * kBreakdownMiB);
  CHECK(functions.count("hold_weights") == 0);
  CHECK(report.json.at("pictures")[1].at("reason") == "peak");
}

TEST_CASE("an allocation that was made to fail is not out of memory", "[breakdowns]") {
  const Run run = culprit_run({"--fail-alloc", "4", "--format", "json"}, {"peak"});
  const auto json = nlohmann::json::parse(run.err.substr(run.err.find('{')));
  CHECK(json.at("pictures").at(0).at("reason") == "peak");
}

TEST_CASE("the report begins with what ran out of memory and shows the peak on demand", "[breakdowns]") {
  const Run failed = culprit_run({}, {"peak", "more"});
  INFO(failed.err);
  const std::size_t failure = failed.err.find("OUT OF MEMORY: cudaMalloc asked for 64.0 TiB at peak.cpp:");
  REQUIRE(failure != std::string::npos);
  CHECK(failure < failed.err.find("LEAKED"));
  CHECK(has(failed.err, "65.0 MiB by this process:\n   64.0 MiB  2x     cudaMalloc  device  peak.cpp:"));
  const Run peak = culprit_run({"--at", "peak"}, {"peak"});
  INFO(peak.err);
  CHECK(has(peak.err, "PEAK of GPU 0: 192 MiB in 3 allocations at "));
  CHECK(has(peak.err, "   128 MiB   1x     cudaMalloc  device  peak.cpp:14  hold_weights"));
  CHECK_FALSE(has(peak.err, "OUT OF MEMORY"));
  CHECK(culprit_run({"--at", "peak", "--format", "json"}, {"peak"}).exit_code == 2);
}

}  // namespace culprit::test
