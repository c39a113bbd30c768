// Frees: memory freed by any call is not a leak; memory whose free the driver refused is one.
#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

void check_clean(const Run& run) {
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaks.empty());
  CHECK(report.error_count() == 0);
}

// Whether the stack `key` of an error passes through a function.
bool error_passes_through(const nlohmann::json& error, const char* key, const std::string& function) {
  return error.contains(key) && has_frame(read_stack(error.at(key)), function);
}

// leak_one, by CUDA's runtime.
bool is_of_runtime(const std::string& subject) { return subject.rfind("leak_one", 0) == 0; }

}  // namespace

TEST_CASE("memory that is never freed is reported with its size and function", "[frees]") {
  for (const char* subject : {"leak_one", "leak_one_static", "driver_leak_one", "program_with_holes"}) {
    if (on_gpu() && std::string(subject) == "leak_one_static") continue;
    INFO("subject " << subject);
    const Run run = run_preloaded(subject);
    INFO("stderr: " << run.err);
    CHECK(run.exit_code == (is_of_runtime(subject) ? 7 : 0));
    const Report report = read_report(run.dump());
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].bytes == 11001);
    CHECK(report.leaks[0].count == 1);
    CHECK(report.leaks[0].device == 0);
    CHECK(report.leaks[0].kind == "device");
    CHECK(report.leaks[0].is_unexplained());
    CHECK(report.leaks[0].has_frame("leak_here"));
    CHECK(report.leaks[0].api == (is_of_runtime(subject) ? "cudaMalloc" : "cuMemAlloc"));
    CHECK(report.json.at("process").at("ended") == "exit");
  }
}

TEST_CASE("a free on another thread finds its allocation", "[frees]") {
  check_clean(run_preloaded("free_elsewhere", {"thread"}));
}

TEST_CASE("a free with another device current finds its allocation", "[frees]") {
  if (on_gpu()) {
    WARN("skipped: asks the simulator for a second device");
    return;
  }
  RunOptions options;
  options.environment["SIMCUDA_DEVICES"] = "2";
  check_clean(run_preloaded("free_elsewhere", {"device"}, options));
}

TEST_CASE("a free with another context current finds its allocation", "[frees]") {
  check_clean(run_preloaded("free_other_context"));
}

TEST_CASE("freeing null is nothing", "[frees]") { check_clean(run_preloaded("free_null")); }

TEST_CASE("an allocation that failed is no leak", "[frees]") { check_clean(run_preloaded("failed_allocation")); }

TEST_CASE("a refused free leaves the allocation live and is kept", "[frees]") {
  if (on_gpu()) {
    WARN("skipped: has the simulator refuse a call");
    return;
  }
  RunOptions options;
  options.environment["SIMCUDA_FAIL"] = "cuMemFree_v2:1:700";
  const Run run = run_preloaded("free_refused", {}, options);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].bytes == 11001);
  CHECK(report.leaks[0].cause == "failed-free");
  CHECK(report.leaks[0].has_frame("allocate_here"));
  const std::vector<nlohmann::json> errors = report.errors("failed-free");
  REQUIRE(errors.size() == 1);
  CHECK(report.error_count() == 1);
  INFO(errors[0].dump(1));
  CHECK(errors[0].at("code") == 700);
  CHECK(plain_api(errors[0].at("api")) == "cudaFree");
  CHECK(error_passes_through(errors[0], "stack", "free_in_vain"));
  CHECK(error_passes_through(errors[0], "allocation_stack", "allocate_here"));
}

TEST_CASE("a double free is kept with three stacks", "[frees]") {
  const Run run = run_preloaded("bad_free", {"double"});
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaks.empty());
  const std::vector<nlohmann::json> errors = report.errors("double-free");
  REQUIRE(errors.size() == 1);
  CHECK(report.error_count() == 1);
  INFO(errors[0].dump(1));
  CHECK(error_passes_through(errors[0], "stack", "free_badly"));
  CHECK(error_passes_through(errors[0], "free_stack", "free_first"));
  CHECK(error_passes_through(errors[0], "allocation_stack", "allocate_device"));
}

TEST_CASE("a free of something unknown is kept", "[frees]") {
  const Run run = run_preloaded("bad_free", {"unknown"});
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaks.empty());
  const std::vector<nlohmann::json> errors = report.errors("invalid-free");
  REQUIRE(errors.size() == 1);
  CHECK(report.error_count() == 1);
  CHECK(error_passes_through(errors[0], "stack", "free_badly"));
}

TEST_CASE("a mismatched free is kept with the allocation's stack", "[frees]") {
  struct Row {
    const char* how;
    const char* free_function;
    const char* allocate_function;
  };
  const Row rows[] = {{"interior", "free_badly", "allocate_device"},
                      {"pinned-as-device", "free_badly", "allocate_pinned"},
                      {"device-as-pinned", "free_host_badly", "allocate_device"}};
  for (const Row& row : rows) {
    INFO(row.how);
    const Run run = run_preloaded("bad_free", {row.how});
    INFO("stderr: " << run.err);
    // The real driver accepts some wrong frees silently; then there is no record.
    if (on_gpu() && run.exit_code == 3) {
      WARN("this driver accepts " << row.how);
      continue;
    }
    REQUIRE(run.exit_code == 0);
    const Report report = read_report(run.dump());
    CHECK(report.leaks.empty());
    const std::vector<nlohmann::json> errors = report.errors("mismatched-free");
    REQUIRE(errors.size() == 1);
    CHECK(report.error_count() == 1);
    INFO(errors[0].dump(1));
    CHECK(error_passes_through(errors[0], "stack", row.free_function));
    CHECK(error_passes_through(errors[0], "allocation_stack", row.allocate_function));
  }
}

TEST_CASE("a free in the destructor of a global is a late free and no leak", "[frees]") {
  check_clean(run_preloaded("late_free"));
  check_clean(run_preloaded("driver_late_free"));
}

TEST_CASE("frees that race with allocations of the same address are counted exactly", "[frees]") {
  const Run run = run_preloaded("address_reuse", {"8", on_gpu() ? "200" : "20000"});
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 8);
  CHECK(report.leaked_bytes() == 8 * 4096);
  CHECK(report.error_count() == 0);
}

}  // namespace culprit::test
