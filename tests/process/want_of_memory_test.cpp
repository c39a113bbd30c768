// Calls that fail because the driver has no memory for them: none is unseen, whatever the call is for.
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

using Calls = std::vector<std::pair<std::string, std::string>>;  // each with the function that must be refused

Calls calls_in_want() {
  RunOptions options;
  options.preload = false;
  std::istringstream lines(run_preloaded("want_of_memory", {}, options).out);
  Calls calls;
  for (std::string name, refused; lines >> name >> refused;) calls.emplace_back(name, refused);
  return calls;
}

RunOptions without_room_for(const std::string& refused) {
  RunOptions options;
  options.environment["SIMCUDA_MEMORY_MB"] = "600";
  options.environment["SIMCUDA_OWN_MEMORY"] = "1";
  if (refused != "-") options.environment["SIMCUDA_FAIL"] = refused + ":1:2";
  return options;
}

}  // namespace

TEST_CASE("a call that fails for want of memory is never unseen", "[want-of-memory]") {
  if (on_gpu()) return;
  const Calls calls = calls_in_want();
  REQUIRE(calls.size() > 10);
  for (const auto& [name, refused] : calls) {
    const Run run = run_preloaded("want_of_memory", {name}, without_room_for(refused));
    INFO(name << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    const nlohmann::json report = read_report(run.dump()).json;
    CHECK(report["summary"]["failed_allocations"] == 1);
    REQUIRE(report["failed_allocations"].size() == 1);
    const nlohmann::json& failed = report["failed_allocations"][0];
    CHECK(failed["code_name"] == "CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(failed["bytes"] == 0);
    CHECK(has_frame(read_stack(failed["stack"]), name));
    REQUIRE(report["out_of_memory"].size() == 1);
    const nlohmann::json& explained = report["out_of_memory"][0];
    CHECK(explained["asked_bytes"] == 0);
    CHECK(explained["would_fit"]["rule"] == "not-known");
    const std::string text = run_culprit({"report", "--color", "never", run.dump().string()}).out;
    INFO(text);
    const std::string api = failed["api"];
    CHECK(has(text, "OUT OF MEMORY: " + api + " failed at want_of_memory.cpp:"));
    CHECK_FALSE(has(text, "FAILED"));  // one event, one block
    CHECK(text.find("OUT OF MEMORY") < text.find("LEAKED"));
    CHECK(has(text, "whether it would have fit is not known: " + api + " does not say how much memory it needs"));
  }
}

TEST_CASE("a first context for which there is no memory leaves a dump", "[want-of-memory]") {
  if (on_gpu()) return;
  const Run run = run_preloaded("want_of_memory", {"none"}, without_room_for("cuDevicePrimaryCtxRetain"));
  CHECK(run.exit_code == 3);
  const nlohmann::json report = read_report(run.dump()).json;
  REQUIRE(report["failed_allocations"].size() == 1);
  CHECK(report["failed_allocations"][0]["api"] == "cuDevicePrimaryCtxRetain");
}

}  // namespace culprit::test
