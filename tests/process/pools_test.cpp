// Segments of a framework's cache are distinguished from other allocations of the same library.
#include "tests/catch.h"
#include "tests/process/culprit_run.h"

namespace culprit::test {

TEST_CASE("segments of a caching allocator are cached and a raw allocation of its library leaks", "[pools]") {
  const Run run = run_preloaded("load_plugin", {subject_path("libc10_cuda.so").string()});
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  const std::vector<Group> cached = report.through("alloc_block");
  REQUIRE(cached.size() == 2);  // the program uses the library at two places
  for (const Group& group : cached) {
    CHECK(group.cause == "cached");
    CHECK(group.json.at("pool") == "PyTorch caching allocator");
  }
  const std::vector<Group> raw = report.through("raw_device_malloc");
  REQUIRE(raw.size() == 2);
  for (const Group& group : raw) CHECK(group.is_unexplained());
  const nlohmann::json& summary = report.json.at("summary");
  CHECK(summary.at("cached_bytes") == 22002);
  CHECK(summary.at("leaked_bytes") == 4 * 20001);
  CHECK(summary.at("caches").at(0).at("segments") == 2);
}

TEST_CASE("culprit run --no-framework-caches sets the switches for the program", "[pools]") {
  const std::vector<std::string> print = {"/bin/sh", "-c", "echo $PYTORCH_NO_CUDA_MEMORY_CACHING"};
  CHECK(culprit_run({"--no-framework-caches"}, print).out == "1\n");
  CHECK(culprit_run({}, print).out == "\n");
}

}  // namespace culprit::test
