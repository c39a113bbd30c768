// Memory of graphs: what a launch allocated and nothing freed is a leak, and nothing else is. The subject tells how
// many such allocations the driver itself counts.
#include <algorithm>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

constexpr std::uint64_t kBytes = 20 << 20;

const nlohmann::json* launch_of(const Group& group) {
  for (const nlohmann::json& evidence : group.json.at("evidence")) {
    if (evidence.at("type") == "graph-launch") return &evidence;
  }
  return nullptr;
}

std::vector<std::string> cases() {
  RunOptions options;
  options.preload = false;
  std::istringstream lines(run_preloaded("graph_memory", {}, options).out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

Report report_of_case(const std::string& subject, const std::string& name) {
  const Run run = run_preloaded(subject, {name});
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  const Report report = read_report(run.dump());
  CHECK(std::to_string(report.leaks.size()) + "\n" == run.out);
  return report;
}

// The launch that the only leak tells.
nlohmann::json launch_in(const std::string& name) {
  const Report report = report_of_case("graph_memory", name);
  REQUIRE(report.leaks.size() == 1);
  const nlohmann::json* launch = launch_of(report.leaks[0]);
  REQUIRE(launch != nullptr);
  return *launch;
}

}  // namespace

TEST_CASE("graph memory that a launch allocated and nothing freed is a leak, and no other", "[graphs]") {
  std::vector<std::string> subjects = {"graph_memory"};
  if (!on_gpu()) subjects.push_back("graph_memory_static");
  if (on_gpu()) subjects.push_back("graph_memory_nvstatic");
  const std::vector<std::string> names = cases();
  REQUIRE(names.size() > 20);
  for (const std::string& subject : subjects) {
    if (!std::filesystem::exists(subject_path(subject))) continue;
    for (const std::string& name : names) {
      INFO(subject << " " << name);
      const Report report = report_of_case(subject, name);
      const bool leaks = name.compare(0, 4, "leak") == 0;
      REQUIRE(report.leaks.size() == (leaks ? 1U : 0U));
      CHECK(report.leaked_bytes() == (leaks ? kBytes : 0));
      CHECK(report.error_count() == (name == "freed_twice" ? 1 : 0));
      if (!leaks) continue;
      CHECK(report.leaks[0].kind == "graph-memory");
      CHECK(report.leaks[0].count == 1);
      CHECK(report.leaks[0].cause == "never-freed");
      const nlohmann::json* launch = launch_of(report.leaks[0]);
      REQUIRE(launch != nullptr);
      CHECK(has_frame(read_stack(launch->at("stack")), "launch"));
    }
  }
}

TEST_CASE("leaked graph memory names its node's call and its launches", "[graphs]") {
  const Report report = report_of_case("graph_memory", "leak");
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].api == "cudaGraphAddMemAllocNode");
  CHECK(report.leaks[0].has_frame("add_allocation"));
  CHECK(report_of_case("graph_memory", "leak_captured").leaks.at(0).api == "cudaMallocAsync");
  CHECK(report_of_case("graph_memory", "leak_generic").leaks.at(0).has_frame("generic_graph"));
  CHECK(launch_in("leak").at("count") == 1);
  CHECK(launch_in("leak_of_the_last_launch").at("count") == 3);
  CHECK(launch_in("leak_of_auto_free").at("count") == 3);
  CHECK(launch_in("leak_with_a_refused_launch").at("count") == 1);
}

TEST_CASE("each launch of a graph counts as an allocation", "[graphs]") {
  const Report report = report_of_case("graph_memory", "leak_of_the_last_launch");
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].json.at("made") == 3);
  CHECK(report.leaks[0].json.at("freed") == 2);
  const Report automatic = report_of_case("graph_memory", "leak_of_auto_free");
  REQUIRE(automatic.leaks.size() == 1);
  CHECK(automatic.leaks[0].json.at("made") == 3);
  CHECK(automatic.leaks[0].json.at("freed") == 2);
}

TEST_CASE("a second free of a graph's memory is a double free", "[graphs]") {
  const Report report = report_of_case("graph_memory", "freed_twice");
  const std::vector<nlohmann::json> errors = report.errors("double-free");
  REQUIRE(errors.size() == 1);
  CHECK(has_frame(read_stack(errors[0].at("allocation_stack")), "add_allocation"));
  CHECK(has_frame(read_stack(errors[0].at("free_stack")), "freed_twice"));
}

}  // namespace culprit::test
