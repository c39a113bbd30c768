// Other threads at exit: `culprit run --scan lost` stops them while it looks for lost memory.
#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/json.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

struct AtExit {
  nlohmann::json json;
  std::string search;
  std::uint64_t lost = 0;  // allocations
};

AtExit run_beside(const std::string& how, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--scan", "lost", "--format", "json"});
  const Run run = culprit_run(more, {"threads_at_exit", how});
  INFO(how << ": " << run.out << run.err);
  CHECK(run.out == "fine\n");
  CHECK(run.exit_code == 0);
  AtExit result;
  const std::size_t begin = run.err.find('{');
  REQUIRE(begin != std::string::npos);
  result.json = nlohmann::json::parse(run.err.substr(begin, run.err.rfind('}') + 1 - begin));
  if (result.json.contains("reports")) result.json = result.json.at("reports").at(0);
  result.search = result.json.at("holder_search").at("lost");
  for (const nlohmann::json& leak : result.json.at("leaks")) {
    if (leak.at("cause") == "lost") result.lost += leak.at("count").get<std::uint64_t>();
  }
  return result;
}

// On a GPU the driver has copies of what was used last.
void check_found(const std::string& how, std::uint64_t lost) {
  INFO(how);
  const AtExit found = run_beside(how);
  CHECK(found.search == "done");
  if (on_gpu()) {
    CHECK(found.lost <= lost);
  } else {
    CHECK(found.lost == lost);
  }
}

}  // namespace

TEST_CASE("memory that is lost beside threads that wait is named", "[held-threads]") { check_found("waiting", 2); }

TEST_CASE("no call of a thread that is stopped at exit returns otherwise", "[held-threads]") {
  check_found("calls", 2);
}

TEST_CASE("nothing that a stopped thread has is lost", "[held-threads]") {
  for (const char* how : {"stack", "thread-local"}) check_found(how, 2);
  // Each of them has a pointer at any moment.
  for (int i = 0; i < 5; ++i) check_found("moving", 2);
}

TEST_CASE("a variable of another thread that was overwritten is named at exit", "[held-threads]") {
  const AtExit found = run_beside("local");
  CHECK(found.search == "done");
  CHECK(contains(found.json.value("overwritten", nlohmann::json::array()).dump(), "buffer"));
}

TEST_CASE("threads in malloc or in the driver, and those that begin, end in a search or in its reason",
          "[held-threads]") {
  for (const char* how : {"heap", "driver", "starting"}) {
    INFO(how);
    const AtExit found = run_beside(how);
    if (found.search == "done") {
      CHECK(found.lost <= 2);
    } else {
      CHECK(found.lost == 0);
      CHECK((found.search == "threads-not-stopped" || found.search == "driver-objects"));
    }
  }
}

TEST_CASE("a program that must not be traced ends as it would", "[held-threads]") {
  const AtExit found = run_beside("not-dumpable");
  if (getuid() != 0) CHECK(found.search == "threads-not-stopped");
}

TEST_CASE("without a run the report says what stops threads at exit", "[held-threads]") {
  RunOptions options;
  options.environment["CULPRIT_SCAN"] = "lost";
  const Run run = run_preloaded("threads_at_exit", {"waiting"}, options);
  CHECK(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(report.json.at("holder_search").at("lost") == "threads");
  const Finished text = run_culprit({"report", run.dump().string()});
  CHECK(contains(text.out, "culprit run --scan lost"));
}

}  // namespace culprit::test
