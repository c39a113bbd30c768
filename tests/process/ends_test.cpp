// How a program ended, as its report says.
#include <string>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

std::string text_of(const nlohmann::json& value) { return value.get<std::string>(); }

void check_names(const Report& report, const char* how) {
  const nlohmann::json& process = report.json.at("process");
  CHECK(has(text_of(process.at("exe")), "/main_ended"));
  REQUIRE(process.at("command").size() == 2);
  CHECK(process.at("command")[1] == how);
  CHECK_FALSE(text_of(process.at("working_directory")).empty());
}

}  // namespace

TEST_CASE("a process goes on, and ends, without its main thread", "[ends]") {
  for (const char* how : {"before", "after", "last"}) {
    INFO(how);
    const Run run = run_preloaded("main_ended", {how});
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(has(run.err, "2 allocations"));
    const Report report = read_report(run.dump());
    check_names(report, how);
    CHECK(report.json.at("process").at("ended") == "exit");
    CHECK(report.json.at("process").at("exit_status") == 0);
    CHECK(report.json.at("holder_search").at("state") == "done");
    CHECK(report.json.at("summary").at("complete") == true);
    REQUIRE(report.leaks.size() == 2);
    for (const Group& group : report.leaks) {
      CHECK(group.count == 1);
      CHECK(group.has_frame(group.bytes == 11001 ? "leak_here" : "leak_in_destructor"));
      CHECK(group.json.at("threads")[0].at("name") == "goes-on");
      CHECK(group.cause == (group.bytes == 11001 ? "held" : "never-freed"));
    }
  }
}

}  // namespace culprit::test
