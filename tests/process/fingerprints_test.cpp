// A leak keeps its id from build to build, as long as the code that makes it is the same.
#include <set>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"

namespace culprit::test {
namespace {

std::set<std::string> ids_of(const Report& report) {
  std::set<std::string> ids;
  for (const std::vector<Group>* groups : {&report.leaks, &report.resources}) {
    for (const Group& group : *groups) ids.insert(group.id);
  }
  return ids;
}

}  // namespace

TEST_CASE("leaks of a program built elsewhere with lines inserted above have the same ids", "[fingerprints]") {
  for (const char* name : {"leak_one", "runtime_kinds"}) {
    INFO(name);
    const Report before = read_report(run_preloaded(name, {"leak"}).dump());
    const Report after = read_report(run_preloaded((subject_path("moved") / name).string(), {"leak"}).dump());
    REQUIRE_FALSE(before.leaks.empty());
    REQUIRE(after.leaks.size() == before.leaks.size());
    CHECK(ids_of(after) == ids_of(before));
    CHECK(ids_of(before).size() == before.leaks.size() + before.resources.size());
    // Without this the test would compare a program with itself.
    CHECK(after.leaks[0].stack[0].line != before.leaks[0].stack[0].line);
    CHECK(after.json.at("process").at("exe") != before.json.at("process").at("exe"));
  }
}

TEST_CASE("culprit run compares with a baseline of another build", "[fingerprints][run]") {
  TemporaryFolder folder;
  const std::string file = (folder.path() / "baseline.json").string();
  const std::string moved = (subject_path("moved") / "runtime_kinds").string();
  const Run first = culprit_run({"--write-baseline", file}, {"runtime_kinds", "leak"});
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const Run second = culprit_run({"--fail-on", "new", "--baseline", file}, {moved, "leak"});
  INFO(second.err);
  CHECK(second.exit_code == 0);
  const Run other = culprit_run({"--fail-on", "new", "--baseline", file}, {"driver_leak_one"});
  INFO(other.err);
  CHECK(other.exit_code == 1);
  // Before the program is started.
  const Run bad = culprit_run({"--fail-on", "new", "--baseline", "/nonexistent/file"}, {"leak_one"});
  CHECK(bad.exit_code == 3);
  CHECK(bad.out.empty());
}

}  // namespace culprit::test
