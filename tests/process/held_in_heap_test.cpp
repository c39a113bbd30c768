// Memory that a global variable leads to through the heap is held, and has the name of the way in the program's words.
#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

Report report_on(const std::string& how, RunOptions options = {}) {
  const Run run = run_preloaded("held_in_heap", {how}, std::move(options));
  INFO(how << ", stderr: " << run.err);
  REQUIRE(run.exit_code == 0);
  return read_report(run.dump());
}

nlohmann::json held_of(const Group& group) {
  for (const nlohmann::json& evidence : group.json.at("evidence")) {
    if (evidence.at("type") == "held") return evidence;
  }
  return {};
}

// The lines of the text report that name a holder.
std::vector<std::string> holders_of(const std::string& how, const std::string& program = "held_in_heap") {
  const Run run = run_preloaded(program, {how});
  REQUIRE(run.exit_code == 0);
  const Finished report = run_culprit({"report", run.dump().string()});
  std::vector<std::string> holders;
  std::istringstream lines(report.out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("held by    ");
    if (at != std::string::npos) holders.push_back(line.substr(at + 11));
  }
  return holders;
}

}  // namespace

TEST_CASE("members, elements and keys on the way through the heap are named", "[held-in-heap]") {
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"engine", "g_engine->buffer"},
      {"next", "g_engine->next->buffer"},
      {"tagged", "g_tagged->engine->buffer"},
      {"model", "g_model->weights"},
      {"tokens", "g_model->tokens"},
      {"deleter", "g_deleter"},
      {"vector", "g_vector[3]"},
      {"buffers", "g_buffers[2].memory"},
      {"engines", "g_engines[1]->buffer"},
      {"unique", "g_unique->memory"},
      {"shared", "g_shared->memory"},
      {"map", "g_map[\"weights\"]"},
      {"cache", "g_cache[-2]->buffer"},
      {"hash", "g_hash[\"layer17\"]"},
      {"owners", "g_owners[4096]->memory"},
      {"set", "g_set[*]"},
      {"list", "g_list[2]"},
      {"forward", "g_forward[6].memory"},
      {"deque", "g_deque[*]"},
      {"array", "g_array[2]->memory"},
      {"variant", "g_variant->memory"},
      {"base", "g_base->memory"},
      {"opaque", "g_opaque->engine->buffer"},
      {"table", "g_table[99999]"},
      {"rmm", "g_pieces[1]"},
      {"rmm-vector", "g_columns[0]"},
      {"own-buffer", "g_own->data"},
      {"derived", "g_layer->weights"},
      {"layers", "g_layers[1]->weights"},
      {"second-base", "g_observer->by_name[\"a key that is too long for the string itself\"].memory"},
      {"view-key", "g_views_by_name[\"a literal\"].memory"},
      {"grid", "g_grid.cells[2][1].memory"},
      {"packed", "g_packed.memory"},
      {"arena-buffers", "g_arena_buffers[333].memory"},
      {"arena-map", "g_arena_map[7]"},
      {"arena-engine", "g_arena_engine->next->buffer"},
      {"malloc-arena", "g_engine->buffer"},
  };
  std::vector<std::string> programs = {"held_in_heap", "held_in_heap_type_units"};
  if (std::filesystem::exists(subject_path("held_in_heap_libcxx"))) programs.emplace_back("held_in_heap_libcxx");
  for (const std::string& program : programs) {
    for (const auto& [how, name] : ways) {
      INFO(program << " " << how);
      CHECK(holders_of(how, program) == std::vector<std::string>{name + " in " + program});
    }
  }
}

TEST_CASE("the variables that a std::function has captured are named", "[held-in-heap]") {
  // Where a std::function has the functor inside, a variable of the functor is one of the function.
  const std::vector<std::array<std::string, 3>> ways = {
      {"function", "g_callback->buffer", "g_callback->buffer"},
      {"functions", "g_handlers[\"resize\"]->owner->memory", "g_handlers[\"resize\"].owner->memory"},
      {"small-function", "g_handlers[\"draw\"]", "g_handlers[\"draw\"]"},
      {"captured", "g_callback.owner->memory", "g_callback.owner->memory"},
      {"captured-second", "g_handlers[\"second\"].owner->memory", ""}};
  for (const auto& [how, name, name_of_libcxx] : ways) {
    INFO(how);
    CHECK(holders_of(how) == std::vector<std::string>{name + " in held_in_heap"});
    if (name_of_libcxx.empty() || !std::filesystem::exists(subject_path("held_in_heap_libcxx"))) continue;
    CHECK(holders_of(how, "held_in_heap_libcxx") ==
          std::vector<std::string>{name_of_libcxx + " in held_in_heap_libcxx"});
  }
}

TEST_CASE("a search that has no time to follow all of the driver's data ends", "[held-in-heap]") {
  RunOptions options;
  options.environment = {{"CULPRIT_SCAN_SECONDS", "1"}};
  const Run run = run_preloaded("held_in_heap", {"driver", subject_path("libnpp_many.so").string()}, options);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(held_of(read_report(run.dump()).leaks.at(0)).at("exact_path") == "g_engine->next->buffer");
}

TEST_CASE("a pointer into the middle of memory, in the heap, holds it", "[held-in-heap]") {
  const nlohmann::json held = held_of(report_on("views").leaks.at(0));
  CHECK(held.at("exact_path") == "g_views[2].first");
  CHECK(held.at("middle") == true);
}

TEST_CASE("objects that exit() destroys first are searched before", "[held-in-heap]") {
  for (const auto& [how, name] : std::vector<std::pair<std::string, std::string>>{
           {"late", "late_vector()::instance[2] in held_in_heap"},
           {"late-map", "late_map()::instance[\"weights\"].memory in held_in_heap"},
           {"late-quick", "late_map()::instance[\"weights\"].memory in held_in_heap"},
           {"thread-local", "t_vector[0] in held_in_heap, thread-local, of the main thread"},
           {"thread-local-early", "t_map[\"weights\"]->buffer in held_in_heap, thread-local, of the main thread"},
           {"thread-local-exit", "t_vector[5] in held_in_heap, thread-local, of the main thread"}}) {
    INFO(how);
    CHECK(holders_of(how) == std::vector<std::string>{name});
  }
  CHECK(report_on("late-freed").leaks.empty());
}

TEST_CASE("the objects of a main thread that ended are gone, and the process goes on", "[held-in-heap]") {
  const Report report = report_on("thread-local-ended");
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].cause != "held");
}

TEST_CASE("the search at exit runs once, however many handlers there are", "[held-in-heap]") {
  const auto bytes = [](const std::string& how) {
    const Run run = run_preloaded("held_in_heap", {how});
    REQUIRE(run.exit_code == 0);
    return std::filesystem::file_size(run.dump());
  };
  // Each search would write 144 bytes.
  CHECK(bytes("late-many") < bytes("engine") + 5000 * 100);
}

TEST_CASE("libc's list of exit handlers does not grow with each plugin", "[held-in-heap]") {
  const Run run = run_preloaded("many_handlers", {subject_path("static_objects.so").string()});
  INFO(run.out << run.err);
  REQUIRE(run.exit_code == 0);
  long bytes = -1;
  REQUIRE(std::sscanf(run.out.c_str(), "grown by %ld", &bytes) == 1);
  CHECK(bytes < 65536);
}

TEST_CASE("the members of a function's static variable are named", "[held-in-heap]") {
  const std::vector<std::string> holders = holders_of("static");
  REQUIRE(holders.size() == 2);
  for (const char* way : {"keeper()::instance.by_name[\"weights\"]", "keeper()::instance.buffers[1].memory"})
    CHECK(std::count(holders.begin(), holders.end(), way + std::string(" in held_in_heap")) == 1);
}

TEST_CASE("the nodes of a list or a tree are one step", "[held-in-heap]") {
  CHECK(holders_of("chain") ==
        std::vector<std::string>{"g_engine->next->next->...(997 nodes)->buffer in held_in_heap"});
  CHECK(holders_of("tree") == std::vector<std::string>{"g_tree->left->right->...(28 nodes)->memory in held_in_heap"});
  CHECK(held_of(report_on("chain").leaks.at(0)).at("path") == "g_engine->...->buffer");
}

TEST_CASE("JSON has the exact path, and the one without keys", "[held-in-heap]") {
  const nlohmann::json held = held_of(report_on("map").leaks.at(0));
  CHECK(held.at("path") == "g_map[*]");
  CHECK(held.at("exact_path") == "g_map[\"weights\"]");
  const Run run = run_preloaded("held_in_heap", {"map"});
  const Finished page = run_culprit({"report", "--format", "html", run.dump().string()});
  CHECK(page.out.find("g_map[\\\"weights\\\"] in held_in_heap") != std::string::npos);
}

TEST_CASE("the elements of a container are one group", "[held-in-heap]") {
  CHECK(holders_of("many") == std::vector<std::string>{"g_vector[*] in held_in_heap, 20 pointers"});
  const Report report = report_on("many");
  REQUIRE(report.leaks.size() == 1);
  CHECK(report.leaks[0].cause == "held");
  const nlohmann::json held = held_of(report.leaks[0]);
  CHECK(held.at("symbol") == "g_vector");
  CHECK(held.at("path") == "g_vector[*]");
  CHECK(held.at("exact_path").is_null());
  CHECK(held.at("steps") == 1);
  CHECK(held.at("count") == 20);
}

TEST_CASE("a way without types has the global and the number of chunks, and yields to an exception", "[held-in-heap]") {
  const Report report = report_on("untyped");
  CHECK(report.leaks.at(0).cause == "held");
  CHECK(held_of(report.leaks.at(0)).at("path").is_null());
  CHECK(holders_of("untyped") == std::vector<std::string>{"g_nothing in held_in_heap, through 1 chunk of the heap"});
  CHECK(report_on("exception").leaks.at(0).cause == "exception");
}

TEST_CASE("freed chunks, a vector's room, old headers, hidden pointers and a search that is off hold no memory",
          "[held-in-heap]") {
  for (const char* how : {"dangling", "hidden", "room", "old-header"}) {
    INFO(how);
    CHECK(report_on(how).leaks.at(0).is_unexplained());
  }
  RunOptions off;
  off.environment["CULPRIT_SCAN"] = "off";
  CHECK(report_on("engine", off).leaks.at(0).cause == "never-freed");
}

}  // namespace culprit::test
