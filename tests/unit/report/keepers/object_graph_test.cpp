// The graph of objects in a view is hostile input.
#include "report/load/object_graph.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace culprit::report;

namespace {

nlohmann::json view() {
  return nlohmann::json::parse(R"({"graph": {"strings": ["list", "losses", "[0]"],
    "nodes": [0, 1, 20, 0, 0, 8, 0, 3], "edges": [0, 1, 2], "variables": [0, 1, 0], "memory": [1, 4096, 100], "raw": [0, 8192],
    "hidden": 2, "not_read": 1}})");
}

}  // namespace

TEST_CASE("the graph of a view", "[keepers]") {
  const auto graph = object_graph_of(view());
  REQUIRE(graph != nullptr);
  REQUIRE(graph->nodes.size() == 2);
  CHECK(graph->nodes[0].length == 20);
  CHECK_FALSE(graph->nodes[0].outside);
  CHECK(graph->nodes[1].outside);
  CHECK(graph->edges.at(0).to == 1);
  CHECK(graph->strings.at(graph->variables.at(0).name) == "losses");
  CHECK(graph->memory.at(0).address == 4096);
  CHECK((graph->raw.at(0).node == 0 && graph->raw.at(0).address == 8192));
  CHECK((graph->hidden == 2 && graph->not_read == 1));
  CHECK(object_graph_of(nlohmann::json::object()) == nullptr);
}

TEST_CASE("a graph that was not made says why", "[keepers]") {
  const auto graph = object_graph_of(nlohmann::json::parse(R"({"graph": {"problem": "too many objects"}})"));
  REQUIRE(graph != nullptr);
  CHECK(graph->problem == "too many objects");
  CHECK(object_graph_of(nlohmann::json::parse(R"({"graph": {"strings": []}})"))->problem.empty());
}

TEST_CASE("a graph whose indices lead nowhere is damaged", "[keepers]") {
  const std::pair<const char*, nlohmann::json> damages[] = {
      {"strings", "text"},         {"nodes", {9, 0, 0, 0}}, {"edges", {0, 2, 0}},
      {"edges", {2, 0, 0}},        {"edges", {0, 1, 3}},    {"variables", {7, 0, 0}},
      {"variables", {0, 1000, 0}}, {"memory", {5, 1, 1}},   {"raw", {2, 8192}}};
  for (const auto& [member, value] : damages) {
    nlohmann::json damaged = view();
    damaged["graph"][member] = value;
    INFO(member << " " << value);
    CHECK(object_graph_of(damaged)->problem == "the view of its objects is damaged");
    CHECK(object_graph_of(damaged)->nodes.empty());
  }
}

TEST_CASE("numbers of another type, and a list that is cut off", "[keepers]") {
  nlohmann::json damaged = view();
  damaged["graph"]["edges"] = {0, 1, 2, 0};
  damaged["graph"]["nodes"] = {0, -1, "x", nullptr, 0, 8, 0, 3, 4};
  damaged["graph"]["strings"] = {"list", 7, "\x1b[31mred"};
  const auto graph = object_graph_of(damaged);
  REQUIRE(graph != nullptr);
  CHECK(graph->edges.size() == 1);
  CHECK(graph->nodes.size() == 2);
  CHECK(graph->nodes[0].flags == 0);
  CHECK(graph->strings[1].empty());
  CHECK(graph->strings[2].find('\x1b') == std::string::npos);
}
