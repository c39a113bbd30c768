// Memory that a global variable holds at exit is distinguished from memory that nothing points to.
#include <algorithm>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

Report report_of(const std::vector<std::string>& arguments, RunOptions options = {},
                 const std::string& subject = "holders") {
  const Run run = run_preloaded(subject, arguments, std::move(options));
  INFO("stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  return read_report(run.dump());
}

nlohmann::json evidence_of(const Group& group, const std::string& type) {
  for (const nlohmann::json& evidence : group.json.at("evidence")) {
    if (evidence.at("type") == type) return evidence;
  }
  return {};
}

void check_held(const Group& group, const std::string& symbol, const std::string& module) {
  INFO(group.json.dump(1));
  CHECK(group.cause == "held");
  const nlohmann::json held = evidence_of(group, "held");
  REQUIRE(held.is_object());
  CHECK(held.at("symbol") == symbol);
  CHECK(std::filesystem::path(held.at("module").get<std::string>()).filename() == module);
}

}  // namespace

TEST_CASE("a global that still has the pointer at exit is named", "[holders]") {
  for (const char* how : {"global", "quick_exit"}) {
    const Report report = report_of({how});
    REQUIRE(report.leaks.size() == 1);
    check_held(report.leaks[0], "g_pointer", "holders");
    CHECK(report.leaks[0].has_frame("allocate_here"));
  }
}

TEST_CASE("static variables of functions and members of globals are named by the variable around", "[holders]") {
  Report report = report_of({"static"});
  REQUIRE(report.leaks.size() == 1);
  check_held(report.leaks[0], "cache()::cached", "holders");
  report = report_of({"member"});
  REQUIRE(report.leaks.size() == 1);
  check_held(report.leaks[0], "g_engine", "holders");
  CHECK(evidence_of(report.leaks[0], "held").at("symbol_offset") == 32);
}

TEST_CASE("an array's handle in a global is held too", "[holders]") {
  const Report report = report_of({"image"});
  REQUIRE(report.leaks.size() == 1);
  check_held(report.leaks[0], "g_image", "holders");
  CHECK(report.leaks[0].kind == "array");
}

TEST_CASE("a static variable of a loaded library is named with its library", "[holders]") {
  const Report report = report_of({"plugin", subject_path("holder_plugin.so").string(), "keep_pointer"});
  REQUIRE(report.leaks.size() == 1);
  check_held(report.leaks[0], "kept_by_plugin", "holder_plugin.so");
}

TEST_CASE("a pointer into the middle holds memory, and the report says so", "[holders]") {
  const Report report = report_of({"middle"});
  REQUIRE(report.leaks.size() == 1);
  check_held(report.leaks[0], "g_middle", "holders");
  CHECK(evidence_of(report.leaks[0], "held").at("middle") == true);
  // The handle comes before a pointer into the middle.
  const Report both = report_of({"both"});
  REQUIRE(both.leaks.size() == 1);
  check_held(both.leaks[0], "g_pointer", "holders");
  CHECK(evidence_of(both.leaks[0], "held").at("middle") == false);
}

TEST_CASE("a thread-local variable of the main thread holds memory", "[holders]") {
  const Report report = report_of({"thread-local"});
  REQUIRE(report.leaks.size() == 1);
  check_held(report.leaks[0], "t_pointer", "holders");
  CHECK(evidence_of(report.leaks[0], "held").at("thread_local") == true);
}

TEST_CASE("a thread-local variable of a library holds memory", "[holders]") {
  const std::vector<std::pair<const char*, const char*>> ways = {{"keep_thread_local", "t_kept_by_plugin"},
                                                                 {"keep_exported", "t_exported[1]"},
                                                                 {"keep_in_map", "t_map[\"weights\"]"}};
  for (const char* library : {"holder_plugin.so", "holder_plugin_initial.so"}) {
    for (const auto& [function, variable] : ways) {
      INFO(library << " " << function);
      const Report report = report_of({"plugin", subject_path(library).string(), function});
      REQUIRE(report.leaks.size() == 1);
      CHECK(report.leaks[0].cause == "held");
      const nlohmann::json held = evidence_of(report.leaks[0], "held");
      REQUIRE(held.is_object());
      INFO(held.dump(1));
      CHECK(held.at("thread_local") == true);
      CHECK(std::filesystem::path(held.at("module").get<std::string>()).filename() == library);
      CHECK(held.dump().find(nlohmann::json(variable).dump()) != std::string::npos);
    }
  }
}

TEST_CASE("memory to which only an ended thread or no pointer leads is never freed", "[holders]") {
  for (const char* how : {"forgotten", "other-thread", "end"}) {
    INFO(how);
    const Report report = report_of({how});
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].is_unexplained());
    CHECK(report.leaked_count() == 1);
  }
}

TEST_CASE("memory to which a global leads through the heap is held", "[holders]") {
  const Report report = report_of({"heap"});
  REQUIRE(report.leaks.size() == 2);
  std::vector<std::string> paths;
  for (const Group& group : report.leaks) paths.push_back(evidence_of(group, "held").at("path"));
  std::sort(paths.begin(), paths.end());
  CHECK(paths == std::vector<std::string>{"g_engine.on_heap->memory", "g_vector[*]"});
}

TEST_CASE("memory that a global's destructor frees after the search is no leak", "[holders]") {
  if (on_gpu()) return;  // the driver may be shutting down by then: late_free tests that
  CHECK(report_of({"destructor"}).leaks.empty());
}

TEST_CASE("CULPRIT_SCAN=off and a process without exit handlers search nothing", "[holders]") {
  RunOptions off;
  off.environment["CULPRIT_SCAN"] = "off";
  const Report report = report_of({"global"}, off);
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].cause == "never-freed");
  CHECK(report.json.at("holder_search").at("state") == "off");
  const Report ended = report_of({"_exit"});
  REQUIRE(ended.leaks.size() == 1);
  CHECK(ended.leaks[0].cause == "never-freed");
  CHECK(ended.json.at("holder_search").at("state") == "not-run");
  CHECK(report_of({"global"}).json.at("holder_search").at("state") == "done");
}

TEST_CASE("a fork child that never calls CUDA searches nothing and its parent does", "[holders]") {
  const Run run = run_preloaded("holders", {"fork"});
  REQUIRE(run.exit_code == 0);
  REQUIRE(run.dumps.size() == 1);
  const Report report = read_report(run.dump());
  REQUIRE(report.leaks.size() == 1);
  check_held(report.leaks[0], "g_array", "holders");
  CHECK(report.leaks[0].count == 64);
}

TEST_CASE("physical memory is held by its handle or by the address where it is mapped", "[holders]") {
  for (const char* how : {"handle", "address"}) {
    const Report report = report_of({how}, {}, "holders_driver");
    REQUIRE(report.leaks.size() == 1);
    CHECK(report.leaks[0].kind == "vmm-physical");
    check_held(report.leaks[0], how == std::string("handle") ? "g_handle" : "g_address", "holders_driver");
  }
}

}  // namespace culprit::test
