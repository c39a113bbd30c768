// Memory that one process gives to another one: who still maps it after it was freed.
#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

using nlohmann::json;

namespace culprit::test {
namespace {

constexpr std::uint64_t kBytes = 512ULL << 20;

json report_of(const Run& run, const std::vector<std::string>& options = {}) {
  std::vector<std::string> arguments = {"report", "--format", "json", "--resources", "--fail-on", "none"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  for (const auto& dump : run.dumps) arguments.push_back(dump.string());
  const Finished report = run_culprit(arguments);
  INFO(report.err);
  return json::parse(report.out);
}

}  // namespace

TEST_CASE("memory that one rank freed while another one had it open", "[sharing]") {
  const std::string method = GENERATE("ipc", "descriptor", "pool");
  const auto [order, state] = GENERATE(
      table<std::string, std::string>({{"stays", "stays"}, {"returned", ""}, {"closed", ""}, {"open", "open"}}));
  INFO(method << " " << order);
  const Run run = run_preloaded("sharing", {method, order});
  INFO("stderr: " << run.err);
  if (run.exit_code == 77) {
    WARN("skipped: this driver does not share memory by " << method);
    return;
  }
  REQUIRE(run.exit_code == 0);
  REQUIRE(run.dumps.size() == 2);
  const json report = report_of(run);
  REQUIRE(report["processes"].size() == 2);
  if (state.empty()) {
    CHECK_FALSE(report.contains("shared"));
    return;
  }
  REQUIRE(report["shared"].size() == 1);
  const json& shared = report["shared"][0];
  CHECK(shared["state"] == state);
  CHECK(shared["certain"] == (method != "descriptor"));
  CHECK(shared["bytes"] == kBytes);
  CHECK(shared["importer"]["rank"] == 1);
  CHECK(has_frame(read_stack(shared["importer"]["stack"]), "open_here"));
  CHECK(shared["exporter"]["rank"] == 0);
  CHECK(has_frame(read_stack(shared["exporter"]["stack"]), "export_here"));
  CHECK(has_frame(read_stack(shared["exporter"]["allocation_stack"]), "allocate_here"));
  CHECK(shared["exporter"]["free_stack"].is_null() == (state == "open"));
  if (state == "stays") CHECK(has_frame(read_stack(shared["exporter"]["free_stack"]), "free_here"));
}

TEST_CASE("shared memory in the text report, in a merged file, and of processes that are no ranks", "[sharing]") {
  const Run run = run_preloaded("sharing", {"ipc", "stays"});
  if (run.exit_code == 77) {
    WARN("skipped: this driver has no IPC between processes");
    return;
  }
  REQUIRE(run.exit_code == 0);
  REQUIRE(run.dumps.size() == 2);
  const std::string first = run.dumps[0].string(), second = run.dumps[1].string();
  const std::string sentence = "still mapped by rank 1 when it ended, opened at sharing.cpp:";
  const Finished text = run_culprit({"report", "--fail-on", "none", "--resources", first, second});
  INFO(text.out << text.err);
  CHECK(has(text.out, "SHARED MEMORY: freed by rank 0 at sharing.cpp:"));
  CHECK(has(text.out, sentence));
  CHECK(has(text.out, ": 512 MiB stayed"));
  CHECK(has(text.out, "shared     exported by rank 0 at sharing.cpp:"));
  // One dump alone does not know the other process.
  const Finished alone = run_culprit({"report", "--fail-on", "none", first});
  CHECK_FALSE(has(alone.out, "SHARED MEMORY"));
  const std::string merged = (run.folder->path() / "job.merged").string();
  REQUIRE(run_culprit({"merge", "--output", merged, first, second}).exit_code == 0);
  const Finished from_file = run_culprit({"report", "--fail-on", "none", merged});
  CHECK(has(from_file.out, sentence));
  const Finished apart = run_culprit({"report", "--fail-on", "none", "--no-merge", first, second});
  INFO(apart.out << apart.err);
  CHECK(has(apart.out, sentence));
}

}  // namespace culprit::test
