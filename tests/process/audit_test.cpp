// `culprit run --audit`: CUPTI's callbacks against what was recorded. tests/gpu/audit.py does it with NVIDIA's CUPTI.
#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

RunOptions with_cupti(const std::string& how = "") {
  RunOptions options;
  options.environment["CULPRIT_CUPTI"] = subject_path("sim_cupti.so").string();
  options.environment["SIM_CUPTI"] = how;
  return options;
}

nlohmann::json audit_of(const std::vector<std::string>& command, const RunOptions& options = with_cupti()) {
  const Run run = culprit_run({"--audit", "--format", "json", "--resources"}, command, options);
  INFO(run.err);
  CHECK(run.out == "fine\n");
  return nlohmann::json::parse(run.err);
}

// NVIDIA's driver has no use for our CUPTI.
bool skip_on_gpu() {
  if (on_gpu()) WARN("left out on a GPU: tests/gpu/audit.py does it");
  return on_gpu();
}

}  // namespace

TEST_CASE("the audit counts the calls of each function, and all of them were recorded", "[audit]") {
  if (skip_on_gpu()) return;
  const nlohmann::json report = audit_of({"audited", "all", "all"});
  const nlohmann::json& audit = report.at("audit");
  INFO(audit.dump(1));
  CHECK(audit.at("problem").is_null());
  CHECK(audit.at("not_recorded").empty());
  std::map<std::string, int> calls;
  for (const nlohmann::json& one : audit.at("by_function")) calls[plain_api(one.at("api"))] = one.at("calls");
  for (const char* api : {"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemHostAlloc",
                          "cuStreamCreate", "cuStreamDestroy", "cuEventCreate", "cuEventDestroy", "cuGraphCreate",
                          "cuGraphExecDestroy", "cuGraphDestroy", "cuCtxCreate", "cuCtxDestroy"}) {
    INFO(api);
    CHECK(calls[api] == 2);
  }
  CHECK(calls["cuDevicePrimaryCtxRetain"] == 1);
  CHECK(audit.at("functions") == calls.size());
  CHECK(report.at("summary").at("verdict") == "clean");

  const Run run = culprit_run({"--audit"}, {"audited", "all"}, with_cupti());
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(has(run.err, "NOTHING LEAKED"));
  CHECK(has(run.err, " functions: all recorded\n"));
}

TEST_CASE("calls of each kind of resource are recorded on each way to the driver", "[audit]") {
  if (skip_on_gpu()) return;
  for (const char* route : {"linked", "dlsym", "dlsym-default", "proc-address-old", "proc-address"}) {
    for (const char* how : {"leak", "free"}) {
      INFO(route << " " << how);
      const char* subject = std::string(route) == "linked" ? "routes_linked" : "routes";
      const Run run = culprit_run({"--audit", "--format", "json"}, {subject, route, how}, with_cupti());
      INFO(run.err);
      REQUIRE(run.exit_code == 0);
      const nlohmann::json audit = nlohmann::json::parse(run.err).at("audit");
      CHECK(audit.at("not_recorded").empty());
      CHECK(audit.at("problem").is_null());
      CHECK(audit.at("functions") > 40);
    }
  }
}

TEST_CASE("the audit names calls that were not recorded, with their stack and bytes", "[audit]") {
  if (skip_on_gpu()) return;
  const nlohmann::json report = audit_of({"audited", "all", "private"});
  const nlohmann::json& audit = report.at("audit");
  INFO(audit.dump(1));
  REQUIRE(audit.at("not_recorded").size() == 1);
  const nlohmann::json& calls = audit.at("not_recorded").at(0);
  CHECK(calls.at("api") == "cuMemAllocAsync");
  CHECK(calls.at("count") == 3);
  CHECK(calls.at("bytes") == 3 * (4 << 20));
  const std::vector<Frame> stack = read_stack(calls.at("stack"));
  REQUIRE_FALSE(stack.empty());
  CHECK(has(stack.front().function, "call_private"));
  CHECK(stack.front().file.find("audited.cpp") != std::string::npos);
  CHECK(report.at("summary").at("verdict") == "not-known");

  const Run run = culprit_run({"--audit"}, {"audited", "all", "private"}, with_cupti());
  INFO(run.err);
  CHECK(run.err.rfind("NOT KNOWN: the audit saw 3 calls of the driver that were not recorded: cuMemAllocAsync 3x, ",
                      0) == 0);
  CHECK(has(run.err, "AUDIT  3 calls were not recorded: cuMemAllocAsync 3x, 12.0 MiB, at audited.cpp:"));
  CHECK_FALSE(has(run.err, "NOTHING LEAKED"));
}

TEST_CASE("without CUPTI the report says that there was no audit, and why", "[audit]") {
  if (skip_on_gpu()) return;
  RunOptions nowhere = with_cupti();
  nowhere.environment["CULPRIT_CUPTI"] = "/nowhere/libcupti.so";
  for (const auto& [options, why] : std::vector<std::pair<RunOptions, const char*>>{
           {nowhere, "no libcupti was found: set CULPRIT_CUPTI"},
           {with_cupti("taken"), "another tool, such as a profiler, holds CUPTI"},
           {with_cupti("broken"), "CUPTI refused with error 999"}}) {
    const Run run = culprit_run({"--audit"}, {"audited", "all", "leak"}, options);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.out == "fine\n");
    CHECK(has(run.err, std::string("AUDIT  no audit took place: ") + why));
    CHECK(has(run.err, "LEAKED"));
  }
}

TEST_CASE("a profiler of the program gets CUPTI, and the audit ends", "[audit]") {
  if (skip_on_gpu()) return;
  const nlohmann::json audit = audit_of({"audited", "all", "profiler", "all", "private"}).at("audit");
  INFO(audit.dump(1));
  CHECK(has(audit.at("problem").get<std::string>(), "when the program's own profiler took CUPTI"));
  CHECK(audit.at("not_recorded").empty());
  for (const nlohmann::json& one : audit.at("by_function")) {
    if (one.at("api") == "cuEventCreate") CHECK(one.at("calls") == 1);
  }
}

TEST_CASE("a run without --audit has none, and leaves CUPTI alone", "[audit]") {
  const Run run = culprit_run({"--format", "json"}, {"audited", "all"}, with_cupti("taken"));
  CHECK_FALSE(nlohmann::json::parse(run.err).contains("audit"));
}

}  // namespace culprit::test
