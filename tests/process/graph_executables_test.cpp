// The memory that the driver takes for executable graphs: which lines made it grow, and how much of it is in use. The
// simulated driver takes what was measured on an H200; tests/gpu/balance.py asks a real one.
#include <cstdint>
#include <string>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

using nlohmann::json;

constexpr std::int64_t kOne = std::int64_t{546} * (1 << 20) / 5000 * 1000;  // that one executable takes

Run run_executables(const std::string& mode) {
  RunOptions options;
  options.environment["SIMCUDA_OWN_MEMORY"] = "1";
  Run run = run_preloaded("graph_executables", {mode}, std::move(options));
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return run;
}

struct Executables {
  explicit Executables(const std::string& mode) : run(run_executables(mode)) {
    report = read_report(run.dump()).json;
    for (const json& one : report["devices"][0]["balance"]) {
      if (one["what"] == "graph-executables") item = one;
      if (one["what"] == "rest") rest = one["bytes"];
    }
    for (const json& one : report.value("bills", json::array())) {
      if (one["what"] == "graph-executables" && one["ended"] == false) call_charges.push_back(one);
    }
  }
  std::string text(const std::string& option = "--all") const {
    return run_culprit({"report", "--color", "never", option, run.dump().string()}).out;
  }
  Run run;
  json report;
  json item;
  json call_charges = json::array();
  std::int64_t rest = -1;
};

constexpr char kGrow[] = "GRAPH EXECUTABLES GROW";
constexpr char kAdvice[] = "destroy them with cuGraphExecDestroy, or update one with cuGraphExecUpdate";

}  // namespace

TEST_CASE("a program that instantiates per request and keeps the executables is named with its line", "[executables]") {
  if (on_gpu()) return;
  const Executables found("per request");
  REQUIRE(found.call_charges.size() == 1);
  CHECK(found.call_charges[0]["bytes"] == 40 * kOne);
  CHECK(found.call_charges[0]["count"] == 40);
  CHECK(found.call_charges[0]["made"] == 40);
  CHECK(found.call_charges[0]["live"] == 40);
  CHECK(found.call_charges[0]["most_live"] == 40);
  CHECK(found.call_charges[0]["growing"] == true);
  CHECK(has_frame(read_stack(found.call_charges[0]["stack"]), "instantiate"));
  CHECK(found.item["bytes"] == 40 * kOne);
  CHECK(found.item["live"] == 40);
  CHECK(found.item["in_use_at_least_bytes"] == 40 * kOne);
  CHECK(found.item["in_use_at_most_bytes"] == 40 * kOne);
  CHECK(found.rest == 0);
  const std::string text = found.text();
  INFO(text);
  CHECK(has(text, "GRAPH EXECUTABLES GROW: 40 kept, made at graph_executables.cpp:"));
  CHECK(has(text, "(40 of 40 instantiations made the driver grow, 4.27 GiB)\n  " + std::string(kAdvice) + "\n"));
  CHECK(has(text, "all of it is in use by 40 live executables"));
  CHECK(has(text, " · 40 made, 40 at once, 40 live"));
  // The group of resources has the advice, too.
  const std::string resources = found.text("--resources");
  INFO(resources);
  CHECK(has(resources, "made the driver grow, 4.27 GiB)\n"));
  CHECK(has(resources, std::string(kAdvice) + ": the driver takes memory for each"));
}

TEST_CASE("executables that were kept until the end are named, too", "[executables]") {
  if (on_gpu()) return;
  const Executables found("destroyed at the end");
  REQUIRE(found.call_charges.size() == 1);
  CHECK(found.call_charges[0]["live"] == 0);
  CHECK(found.call_charges[0]["most_live"] == 40);
  CHECK(found.item["live"] == 0);
  CHECK(found.item["in_use_at_most_bytes"] == 0);
  const std::string text = found.text();
  INFO(text);
  CHECK(has(text, "GRAPH EXECUTABLES GROW: up to 40 kept at once, made at graph_executables.cpp:"));
  CHECK(has(text, "none is live: all of it is idle, kept for the next ones"));
  CHECK(has(text, "executable graphs, all idle"));
}

TEST_CASE("programs that keep few executables, or made them at their start, are not named", "[executables]") {
  if (on_gpu()) return;
  struct Row {
    const char* mode;
    int grown, made, live, most_live;
  };
  const Row row =
      GENERATE(Row{"one at a time", 1, 40, 0, 1}, Row{"handful", 8, 8, 8, 8}, Row{"at the start", 40, 40, 40, 40});
  INFO(row.mode);
  const Executables found(row.mode);
  REQUIRE(found.call_charges.size() == 1);
  CHECK(found.call_charges[0]["bytes"] == row.grown * kOne);
  CHECK(found.call_charges[0]["count"] == row.grown);
  CHECK(found.call_charges[0]["made"] == row.made);
  CHECK(found.call_charges[0]["live"] == row.live);
  CHECK(found.call_charges[0]["most_live"] == row.most_live);
  CHECK(found.call_charges[0]["growing"] == false);
  CHECK_FALSE(has(found.text(), kGrow));
}

TEST_CASE("what executables use of earlier ones' memory is not known", "[executables]") {
  if (on_gpu()) return;
  const Executables found("reused");
  CHECK(found.item["bytes"] == kOne * 35 / 10);
  CHECK(found.item["live"] == 2);
  CHECK(found.item["in_use_at_least_bytes"] == kOne / 2);
  CHECK(found.item["in_use_at_most_bytes"] == kOne * 35 / 10);
  const std::string text = found.text();
  INFO(text);
  CHECK(has(text, "is in use by 2 live executables; what they use of earlier ones' memory is not known"));
}

TEST_CASE("a launch without room for the graph's memory is a failed call", "[executables]") {
  if (on_gpu()) return;  // tests/gpu/graph_executables.py: other tests need the memory
  const Run run = run_preloaded("graph_executables", {"no room"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  REQUIRE(run.out != "none\n");
  const json failed = read_report(run.dump()).json["failed_allocations"];
  REQUIRE(failed.size() == 1);
  CHECK(failed[0]["api"].get<std::string>() + "\n" == run.out);
  CHECK(failed[0]["code_name"] == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(has_frame(read_stack(failed[0]["stack"]), "allocate_in_graph"));
}

TEST_CASE("executables of a context that ended use nothing", "[executables]") {
  if (on_gpu()) return;
  const Executables found("second context");
  CHECK(found.item["live"] == 2);
  CHECK(found.item["in_use_at_least_bytes"] <= found.item["bytes"]);
}

}  // namespace culprit::test
