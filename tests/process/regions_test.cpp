// Regions that a program announces inside an allocation: NVTX's memory extension, culprit.h, Kokkos.
#include <algorithm>
#include <map>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

Run run_announcing(const std::string& what) {
  RunOptions options;
  options.environment["NVTX_INJECTION64_PATH"] = library_path().string();
  return run_preloaded("regions", {what}, options);
}

// The report of subject regions, and its regions by their size. `known` is false where NVTX's headers have no memory
// extension.
struct Announced {
  explicit Announced(const std::string& what) : run(run_announcing(what)) {
    INFO(what << ": " << run.err);
    REQUIRE(run.exit_code == 0);
    known = run.dumps.size() == 1;
    if (!known) return;
    report = read_report(run.dump());
    for (const Group& group : report.leaks) {
      if (group.kind != "region") continue;
      const auto bytes = group.json.at("region_bytes").get<std::uint64_t>();
      CHECK(regions.emplace(bytes, group).second);
    }
  }
  const Group& pool() const {
    REQUIRE(report.through("make_pool").size() == 1);
    pools = report.through("make_pool");
    return pools[0];
  }
  Run run;
  bool known = false;
  Report report;
  std::map<std::uint64_t, Group> regions;
  mutable std::vector<Group> pools;
};

}  // namespace

TEST_CASE("a region that is never ended is a leak inside another one", "[regions]") {
  const Announced announced("leak");
  if (!announced.known) return;
  CHECK(announced.report.leaked_bytes() == 1 << 20);  // the pool's alone
  REQUIRE(announced.regions.size() == 2);
  const Group& bias = announced.regions.at(3003);
  CHECK(bias.bytes == 0);
  CHECK(bias.count == 1);
  CHECK(bias.api == "nvtxMemRegionsRegister");
  CHECK(bias.stack.at(0).function == "(anonymous namespace)::carve");  // NVTX's header says nothing
  CHECK(bias.has_frame("leak_regions"));
  CHECK(bias.json.at("device") == 0);
  CHECK(bias.json.at("threads").size() == 1);
  CHECK(bias.json.at("names") == nlohmann::json::parse(R"([{"name": "bias", "count": 1}])"));
  const nlohmann::json& inside = bias.json.at("inside");
  CHECK(inside.at("api") == "cudaMalloc");
  CHECK(inside.at("bytes") == 1 << 20);
  CHECK(has(inside.at("place").get<std::string>(), "make_pool"));
  CHECK(!announced.report.json.contains("marks"));  // a name of a region is no mark
}

TEST_CASE("an allocation that nothing announced has the name that the program gave it", "[regions]") {
  const Announced announced("named");
  if (!announced.known) return;
  CHECK(announced.regions.empty());
  REQUIRE(announced.report.leaked_count() == 4);
  std::vector<std::string> names;
  for (const Group& group : announced.report.leaks) {
    CHECK(group.json.value("heaps", nlohmann::json::array()).empty());
    for (const nlohmann::json& one : group.json.value("names", nlohmann::json::array()))
      names.push_back(one.at("name"));
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"first name", "inner name", "weights"});
}

TEST_CASE("memory that went with its context has the name that the program gave it", "[regions]") {
  const Announced announced("reset");
  if (!announced.known) return;
  REQUIRE(announced.report.leaked_count() == 4);
  std::vector<std::string> names;
  for (const Group& group : announced.report.leaks) {
    CHECK(group.cause == "context-teardown");
    for (const nlohmann::json& one : group.json.value("names", nlohmann::json::array()))
      names.push_back(one.at("name"));
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"first name", "inner name", "weights"});
}

TEST_CASE("regions go with the context of their memory", "[regions]") {
  const Announced announced("regions_reset");
  if (!announced.known) return;
  CHECK(announced.report.leaked_bytes() == 2 * (1 << 20) + 256 * 64 * 4);  // the memory's alone
  REQUIRE(announced.regions.size() == 3);
  for (const std::uint64_t bytes : {1001, 2002, 256 * 10 * 4}) {
    INFO(bytes);
    const Group& region = announced.regions.at(bytes);
    CHECK(region.cause == "context-teardown");
    CHECK(!region.json.contains("inside"));
    CHECK(region.bytes == 0);
    CHECK(region.count == 1);
    CHECK(region.device == 0);
  }
  CHECK(announced.regions.at(2002).json.at("names")[0].at("name") == "weights");
  // The pool that is made after the reset has none, although it may be at the same address.
  for (const Group& pool : announced.report.through("make_pool")) CHECK(!pool.json.contains("heaps"));
}

TEST_CASE("the heap of regions is explained with its leak", "[regions]") {
  const Announced announced("leak");
  if (!announced.known) return;
  const nlohmann::json& heaps = announced.pool().json.at("heaps");
  REQUIRE(heaps.size() == 1);
  CHECK(heaps[0].at("name") == "arena");
  CHECK(heaps[0].at("bytes") == 1 << 20);
  CHECK(heaps[0].at("used_bytes") == 1001 + 3003);
  CHECK(heaps[0].at("idle_bytes") == (1 << 20) - 1001 - 3003);
  CHECK(heaps[0].at("largest_hole") == (1 << 20) - 0x40000 - 3003);
  CHECK(heaps[0].at("regions") == 2);
  CHECK(announced.pool().json.at("region_names").size() == 2);
  CHECK(!announced.pool().json.contains("names"));
  const std::string text = run_culprit({"report", announced.run.dump().string()}).out;
  INFO(text);
  CHECK(has(text, "              named \"bias\"; \"weights\"\n"));
  CHECK(has(text, "   regions    \"arena\": 3.91 KiB of 1.00 MiB in 2 regions, 1020 KiB idle, largest hole 765 KiB\n"));
  CHECK(has(text, "2  2.93 KiB  1x  nvtxMemRegionsRegister  region, GPU 0   NEVER FREED"));
  CHECK(has(text, "   inside     1.00 MiB of cudaMalloc at regions.cpp:"));
  CHECK(has(text, "1.00 MiB device (1x) · 3.91 KiB region (2x) inside\n"));
}

TEST_CASE("a region of a CUDA array is a leak inside the array", "[regions]") {
  const Announced announced("array");
  if (!announced.known) return;
  CHECK(announced.report.leaked_bytes() == 256 * 64 * 4);
  REQUIRE(announced.regions.size() == 1);
  const Group& glyphs = announced.regions.at(256 * 10 * 4);
  CHECK(glyphs.has_frame("carve_rows"));
  CHECK(glyphs.json.at("names") == nlohmann::json::parse(R"([{"name": "glyphs", "count": 1}])"));
  CHECK(glyphs.json.at("inside").at("api") == "cudaMallocArray");
  CHECK(has(glyphs.json.at("inside").at("place").get<std::string>(), "make_array"));
  const std::vector<Group> arrays = announced.report.through("make_array");
  REQUIRE(arrays.size() == 1);
  const nlohmann::json& heaps = arrays[0].json.at("heaps");
  REQUIRE(heaps.size() == 1);
  CHECK(heaps[0].at("name") == "atlas");
  CHECK(heaps[0].at("bytes") == 256 * 64 * 4);
  CHECK(heaps[0].at("used_bytes") == 256 * 10 * 4);
  CHECK(heaps[0].at("largest_hole") == 256 * 32 * 4);
}

TEST_CASE("regions that are ended, or whose memory is given back, are no leaks", "[regions]") {
  const Announced ended("end");
  if (!ended.known) return;
  CHECK(ended.report.leaks.empty());
  CHECK(ended.report.json.at("summary").at("allocations") == 3);
  CHECK(ended.report.json.at("summary").at("frees") == 3);
  CHECK(ended.report.json.at("summary").at("unknown_frees") == 0);
  // The driver gives the address of the freed pool to the next one, which has no regions.
  const Announced freed("free_around");
  CHECK(freed.regions.empty());
  CHECK(!freed.pool().json.contains("heaps"));
}

TEST_CASE("several regions in a call, by pointer and by handle, are announced and resized", "[regions]") {
  const Announced announced("batches");
  if (!announced.known) return;
  REQUIRE(announced.regions.size() == 1);
  const Group& group = announced.regions.begin()->second;
  CHECK(group.count == 2);
  CHECK(group.json.at("region_bytes") == 900 + 300);  // the handle of the second ended it, and the first grew
  CHECK(announced.pool().json.at("heaps")[0].at("name").is_null());
}

TEST_CASE("a heap that is reset or ends takes its regions along, and no others", "[regions]") {
  const Announced announced("heaps");
  if (!announced.known) return;
  REQUIRE(announced.regions.size() == 1);
  CHECK(announced.regions.count(104) == 1);
  CHECK(announced.pool().json.at("heaps").size() == 1);
  CHECK(announced.pool().json.at("heaps")[0].at("name") == "first");
}

TEST_CASE("a region has the cause of an allocation", "[regions]") {
  const Announced announced("throw");
  if (!announced.known) return;
  CHECK(announced.regions.at(1001).cause == "exception");
  CHECK(announced.pool().cause == "never-freed");
}

TEST_CASE("regions are announced by culprit.h", "[regions]") {
  const Announced announced("header");
  REQUIRE(announced.regions.size() == 2);
  const Group& first = announced.regions.at(1111);  // resized
  CHECK(first.api == "culprit_region_add");
  CHECK(first.stack.at(0).function == "(anonymous namespace)::carve_by_header");
  CHECK(first.json.at("names")[0].at("name") == "first");
  CHECK(!announced.regions.at(2002).json.contains("names"));
  CHECK(announced.report.leaked_bytes() == 1 << 20);
}

TEST_CASE("a region that a global points to is held, and others in its allocation are not", "[regions]") {
  const Announced announced("held");
  CHECK(announced.regions.at(1001).cause == "held");
  CHECK(announced.regions.at(2002).cause == "never-freed");
  const std::string markdown = run_culprit({"report", "--format", "markdown", announced.run.dump().string()}).out;
  CHECK(has(markdown, "| 1.96 KiB | 1 | regions.cpp:"));
}

TEST_CASE("a pointer into the middle of a region holds it, and what is around it", "[regions]") {
  const Announced announced("middles");
  const std::map<std::uint64_t, std::string> causes = {
      {1001, "held"}, {2002, "never-freed"}, {9009, "held"}, {3003, "held"}, {4004, "never-freed"}};
  REQUIRE(announced.regions.size() == causes.size());
  for (const auto& [bytes, cause] : causes) {
    INFO(bytes);
    CHECK(announced.regions.at(bytes).cause == cause);
  }
  for (const auto& [bytes, path] : std::map<std::uint64_t, std::string>{{1001, "view->data"}, {3003, "cursor"}}) {
    const nlohmann::json& evidence = announced.regions.at(bytes).json.at("evidence")[0];
    INFO(evidence);
    CHECK(has(evidence.at(path == "cursor" ? "symbol" : "exact_path").get<std::string>(), path));
    CHECK(evidence.at("middle") == true);
  }
}

TEST_CASE("a pool with regions is lost like any other memory", "[regions]") {
  RunOptions options;
  options.environment["CULPRIT_SCAN"] = "lost";
  const Run run = run_preloaded("regions", {"lost"}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_bytes() == 1 << 20);
  for (const Group& group : report.leaks) CHECK(group.cause == (group.kind == "region" ? "never-freed" : "lost"));
}

TEST_CASE("a View of Kokkos is a region with the View's label", "[regions]") {
  RunOptions options;
  options.environment["KOKKOS_TOOLS_LIBS"] = (library_path().parent_path() / "libculprit_kokkos.so").string();
  const Run run = run_preloaded("kokkos_views", {}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_bytes() == 1128);
  const std::vector<Group> views = report.through("make_view");
  REQUIRE(views.size() == 2);
  CHECK(views[0].api == "cudaMalloc");
  CHECK(views[0].json.at("names")[0].at("name") == "View a");
  CHECK(views[1].kind == "region");
  CHECK(views[1].stack.at(0).function == "allocate_data");  // libculprit_kokkos.so says nothing
  CHECK(views[1].json.at("region_bytes") == 1000);
  CHECK(views[1].json.at("names") == nlohmann::json::parse(R"([{"name": "View a", "count": 1}])"));
  options.preload = false;
  CHECK(run_preloaded("kokkos_views", {}, options).exit_code == 0);
}

TEST_CASE("arguments that NVTX would never read do no harm", "[regions]") {
  const Announced announced("nonsense");
  if (!announced.known) return;
  CHECK(announced.regions.size() == 1);
  CHECK(announced.regions.count(1002) == 1);
}

TEST_CASE("a program with regions runs the same without the library", "[regions]") {
  RunOptions options;
  options.preload = false;
  for (const char* what :
       {"header", "middles", "leak", "regions_reset", "end", "free_around", "batches", "heaps", "throw", "nonsense"}) {
    const Run run = run_preloaded("regions", {what}, options);
    INFO(what << ": " << run.err);
    CHECK(run.exit_code == 0);
  }
}

}  // namespace culprit::test
