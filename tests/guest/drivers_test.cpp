// Situation 12: more than one driver, or less of one.
#define __CUDA_API_VERSION_INTERNAL
#include <algorithm>

#include "interpose/driver/driver.h"
#include "tests/catch.h"
#include "tests/guest/both_ways.h"
#include "tests/guest/changed_driver.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

// The functions of the driver that the library itself calls, but for those without which the program cannot run.
std::vector<std::string> called() {
  std::vector<std::string> names = {
#define CALLED(name) #name,
      CULPRIT_DRIVER_CALLS(CALLED)
#undef CALLED
  };
  for (const char* needed : {"cuMemAlloc_v2", "cuMemFree_v2"})
    names.erase(std::find(names.begin(), names.end(), needed));
  return names;
}
const std::vector<std::string> kCalled = called();

BothWays run_drivers(const std::string& what, const std::vector<std::filesystem::path>& paths) {
  Situation situation{"drivers", {what}};
  for (const std::filesystem::path& path : paths) situation.arguments.push_back(path.string());
  situation.fake_driver_only = true;  // NVIDIA's stays mapped once it was used, and cannot be used twice
  return both_ways(situation);
}

// Number and bytes of the leaks in the report, and whether the report is complete.
std::string left_by(const BothWays& runs) {
  if (runs.under.dumps.size() != 1) return std::to_string(runs.under.dumps.size()) + " dumps";
  const Report report = read_report(runs.under.dump());
  return std::to_string(report.leaked_count()) + ": " + std::to_string(report.leaked_bytes()) +
         (report.json.at("summary").at("complete") ? "" : ", not complete");
}

DriverChange without(const std::vector<std::string>& names, const std::string& instead = {}) {
  DriverChange change;
  for (const std::string& name : names) change.functions[name] = instead;
  return change;
}

}  // namespace

TEST_CASE("a driver may lack any function that the library calls itself", "[drivers]") {
  const TemporaryFolder folder;
  std::vector<std::vector<std::string>> sets = {kCalled};
  for (const std::string& name : kCalled) sets.push_back({name});
  for (const std::string instead : {"", "guestDriverDoesNothing", "guestDriverRefuses"}) {
    for (const std::vector<std::string>& names : sets) {
      if (!instead.empty() && names.size() > 1) continue;
      const std::filesystem::path driver =
          changed_driver(folder.path() / names.front(), "libcuda.so.1", without(names, instead));
      INFO((names.size() > 1 ? "all" : names.front()) << " " << (instead.empty() ? "absent" : instead));
      const BothWays runs = run_drivers("lacks", {driver});
      if (runs.ran) CHECK(left_by(runs) == "1: 11001");
    }
  }
}

TEST_CASE("the report does not know what the driver did not say", "[drivers]") {
  const TemporaryFolder folder;
  const auto report_without = [&](const std::vector<std::string>& names, const std::string& instead = {}) {
    const BothWays runs =
        run_drivers("lacks", {changed_driver(folder.path() / names.front(), "libcuda.so.1", without(names, instead))});
    return runs.ran ? read_report(runs.under.dump()).json : nlohmann::json();
  };
  for (const std::string instead : {"", "guestDriverDoesNothing", "guestDriverRefuses"}) {
    INFO(instead);
    const nlohmann::json no_memory = report_without({"cuMemGetInfo_v2"}, instead);
    if (no_memory.is_null()) return;
    INFO(no_memory.dump(1));
    CHECK(no_memory.at("leaks").at(0).at("bytes") == 11001);
    CHECK(no_memory.at("leaks").at(0).at("device") == 0);
    for (const nlohmann::json& device : no_memory.at("devices")) {
      for (const char* moment : {"first", "peak", "exit"}) CHECK(device.at("memory").at(moment).is_null());
    }
    const nlohmann::json no_place = report_without({"cuCtxGetCurrent"}, instead);
    CHECK(no_place.at("leaks").at(0).at("bytes") == 11001);
    CHECK(no_place.at("leaks").at(0).at("device").is_null());
  }
}

TEST_CASE("what a driver left behind that was closed is not taken for the next one's", "[drivers]") {
  const TemporaryFolder folder;
  const auto first = changed_driver(folder.path() / "first", "libcuda.so.1", {});
  const auto second = changed_driver(folder.path() / "second", "libcuda.so.1", {});
  const std::string four = "4: 44010";
  for (const auto& [what, left] : std::map<std::string, std::string>{
           {"reload", four}, {"moved", four}, {"clean", "0: 0"}, {"closed", "1: 11001"}}) {
    INFO(what);
    const BothWays runs = run_drivers(what, {first, second});
    if (runs.ran) CHECK(left_by(runs) == left);
  }
}

TEST_CASE("a driver that is closed past the library's dlclose is noticed when the next one begins", "[drivers]") {
  const BothWays runs = run_drivers("plugin", {guest_path("namespace_plugin.so")});
  if (runs.ran) CHECK(left_by(runs) == "3: 33003");
}

TEST_CASE("the driver is recorded that can be used, and not only the first one", "[drivers]") {
  const TemporaryFolder folder;
  const auto stub = changed_driver(folder.path() / "stubs", "libcuda.so", without({"cuInit"}, "guestDriverIsStub"));
  for (const std::string what : {"unusable", "unusable_closed"}) {
    // By another name; by another DT_SONAME; by neither.
    DriverChange other;
    other.soname = "libzluda.so";
    for (const auto& driver :
         {changed_driver(folder.path() / "copy", "libcuda.so.580", {}), changed_driver(folder.path(), "driver.so", {}),
          changed_driver(folder.path() / "soname", "libcuda.so.1", other),
          changed_driver(folder.path() / "name", "other.so", other)}) {
      INFO(what << " " << driver);
      const BothWays runs = run_drivers(what, {stub, driver});
      if (runs.ran) CHECK(left_by(runs) == "1: 11001");
    }
  }
}

TEST_CASE("of two drivers that are used in turn each gets its own calls", "[drivers]") {
  const TemporaryFolder folder;
  const auto first = changed_driver(folder.path() / "first", "libcuda.so.1", {});
  const auto second = changed_driver(folder.path() / "second", "libcuda.so.1", {});
  const BothWays runs = run_drivers("both", {first, second});
  if (runs.ran) CHECK(left_by(runs) == "2: 3000");
}

TEST_CASE("a driver whose calls are not recorded is named", "[drivers]") {
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> drivers;
  for (int i = 0; i < 5; ++i)
    drivers.push_back(changed_driver(folder.path() / std::to_string(i), "libcuda.so." + std::to_string(i), {}));
  const BothWays runs = run_drivers("many", drivers);
  if (!runs.ran) return;
  CHECK(left_by(runs) == "3: 33003, not complete");
  const Report report = read_report(runs.under.dump());
  REQUIRE(report.json.at("unseen").size() == 2);
  CHECK(report.json.at("unseen").at(0) == nlohmann::json({{"module", drivers[3].string()}, {"how", "driver"}}));
  CHECK(has(runs.under.err, "libcuda.so.3 is one driver too many"));
}

TEST_CASE("threads open, use and close drivers in any order", "[drivers]") {
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> drivers;
  for (int i = 0; i < 3; ++i) drivers.push_back(changed_driver(folder.path() / std::to_string(i), "libcuda.so.1", {}));
  check_live_or_dropped(run_drivers("storm", drivers));
}

}  // namespace culprit::test
