// Programs whose allocations fail: the report says which call failed, how often, and why.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {

TEST_CASE("allocations in threads without a context are named as failed", "[failed]") {
  const Run run = culprit_run({}, {"without_context"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(has(run.err,
            "5 allocations FAILED: cuMemAlloc returned CUDA_ERROR_INVALID_CONTEXT (201): no context is current to the "
            "thread; the first asked for 10.7 KiB at without_context.cpp:"));
  CHECK_FALSE(has(run.err, "no CUDA call was seen"));
}

TEST_CASE("each call that refuses an allocation has its reason in the JSON report", "[failed]") {
  TemporaryFolder folder;
  const Run run = culprit_run({"--format", "json", "-o", folder.file("report.json")}, {"failed_allocation"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  const auto report = nlohmann::json::parse(std::ifstream(folder.file("report.json")));
  CHECK(report["summary"]["failed_allocations"] == 2);
  REQUIRE(report["failed_allocations"].size() == 1);
  CHECK(report["failed_allocations"][0]["code_name"] == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(report["failed_allocations"][0]["reason"] == "there was not enough free memory");
  CHECK(report["failed_allocations"][0]["bytes"] == std::uint64_t{1} << 46);
  CHECK(report["failed_allocations"][0]["count"] == 2);
}

}  // namespace culprit::test
