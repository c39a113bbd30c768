#include "interpose/dump/graph_nodes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

// Graphs have handles from 0x100 on, executables from 0x200 on; the memory of record N is at 0x1000 * N.
struct GraphNodesFixture {
  ~GraphNodesFixture() { nodes->free_memory(); }
  bool allocate(std::uint64_t graph, format::Ref record, bool captured = false) {
    return nodes->add(graph, {0x1000ULL * record, record, false}, captured);
  }
  bool free(std::uint64_t graph, format::Ref record) {
    return nodes->add(graph, {0x1000ULL * record, record, true}, false);
  }
  bool instantiate(std::uint64_t exec, std::uint64_t graph) { return nodes->instantiated(exec, graph, gone()); }
  void destroy_graph(std::uint64_t graph) { nodes->graph_destroyed(graph, gone()); }
  void destroy_exec(std::uint64_t exec) { nodes->executable_destroyed(exec, gone()); }
  // "1 2 -3": the nodes of an executable, the oldest first; - frees.
  std::string run(std::uint64_t exec) {
    std::vector<std::string> list;
    nodes->for_each(exec, [&](const GraphNodes::Node& node) {
      list.push_back((node.frees ? "-" : "") + std::to_string(node.record));
    });
    std::reverse(list.begin(), list.end());
    return joined(list);
  }
  // The records whose nodes are gone since the last call, in order.
  std::string lost() {
    std::sort(lost_.begin(), lost_.end());
    std::string text = joined(lost_);
    lost_.clear();
    return text;
  }
  static std::string joined(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& one : list) text += (text.empty() ? "" : " ") + one;
    return text;
  }
  struct Gone {
    std::vector<std::string>* lost;
    void operator()(const GraphNodes::Node& node) const { lost->insert(lost->begin(), std::to_string(node.record)); }
  };
  Gone gone() { return {&lost_}; }

  Zeroed<GraphNodes> nodes;
  std::vector<std::string> lost_;
};

}  // namespace

TEST_CASE_METHOD(GraphNodesFixture, "an executable runs the nodes that its graph had when it was made") {
  CHECK_FALSE(nodes->any());
  REQUIRE(allocate(0x100, 1));
  REQUIRE(free(0x100, 7));
  CHECK(nodes->any());
  CHECK_FALSE(nodes->may_run(0x200));
  REQUIRE(instantiate(0x200, 0x100));
  REQUIRE(allocate(0x100, 2));
  CHECK(nodes->may_run(0x200));
  CHECK(run(0x200) == "1 -7");
  CHECK(run(0x201).empty());
  // A graph without such nodes.
  REQUIRE(instantiate(0x202, 0x101));
  CHECK(run(0x202).empty());
}

TEST_CASE_METHOD(GraphNodesFixture, "nodes stay while their graph exists or an executable runs them") {
  REQUIRE(allocate(0x100, 1));
  REQUIRE(instantiate(0x200, 0x100));
  destroy_graph(0x100);
  CHECK(lost().empty());
  CHECK(run(0x200) == "1");
  // The handle of the destroyed graph is used again.
  REQUIRE(allocate(0x100, 2));
  REQUIRE(instantiate(0x201, 0x100));
  CHECK(run(0x201) == "2");
  destroy_exec(0x200);
  CHECK(lost() == "1");
  destroy_exec(0x201);
  CHECK(lost().empty());
  CHECK(nodes->any());
  CHECK_FALSE(nodes->may_run(0x200));
  CHECK_FALSE(nodes->may_run(0x201));
  REQUIRE(instantiate(0x202, 0x100));
  CHECK(run(0x202) == "2");
  destroy_exec(0x202);
  destroy_graph(0x100);
  CHECK(lost() == "2");
  CHECK_FALSE(nodes->any());
  destroy_graph(0x100);
  destroy_exec(0x202);
  CHECK(lost().empty());
}

TEST_CASE_METHOD(GraphNodesFixture, "memory that its own graph frees is not kept") {
  for (format::Ref record = 1; record <= 3; ++record) REQUIRE(allocate(0x100, record));
  CHECK_FALSE(nodes->drop_own(0x101, 2));
  CHECK(nodes->drop_own(0x100, 2));
  CHECK_FALSE(nodes->drop_own(0x100, 2));
  REQUIRE(instantiate(0x200, 0x100));
  CHECK(run(0x200) == "1 3");
  CHECK_FALSE(nodes->drop_own(0x100, 3));  // an executable runs it
  destroy_exec(0x200);
  CHECK(nodes->drop_own(0x100, 3));
  CHECK(nodes->drop_own(0x100, 1));
  REQUIRE(instantiate(0x200, 0x100));
  CHECK_FALSE(nodes->may_run(0x200));
  destroy_graph(0x100);
  CHECK(lost().empty());
}

TEST_CASE_METHOD(GraphNodesFixture, "a child that was moved belongs to its parent") {
  REQUIRE(allocate(0x101, 1));
  REQUIRE(allocate(0x101, 2));
  REQUIRE(allocate(0x100, 3));
  REQUIRE(nodes->moved(0x101, 0x100));
  REQUIRE(nodes->moved(0x102, 0x100));  // without such nodes
  CHECK(nodes->drop_own(0x100, 2));
  REQUIRE(instantiate(0x200, 0x100));
  CHECK(run(0x200) == "3 1");
  destroy_graph(0x101);  // refused by the driver
  CHECK(lost().empty());
  destroy_exec(0x200);
  destroy_graph(0x100);
  CHECK(lost() == "1 3");
  CHECK_FALSE(nodes->any());
  REQUIRE(allocate(0x101, 4));  // another graph
  REQUIRE(instantiate(0x201, 0x101));
  CHECK(run(0x201) == "4");
}

TEST_CASE_METHOD(GraphNodesFixture, "an update gives an executable the nodes of another graph") {
  REQUIRE(allocate(0x100, 1));
  REQUIRE(allocate(0x101, 2));
  REQUIRE(instantiate(0x200, 0x100));
  REQUIRE(instantiate(0x200, 0x100));
  CHECK(run(0x200) == "1");
  destroy_graph(0x100);
  REQUIRE(instantiate(0x200, 0x101));
  CHECK(lost() == "1");
  CHECK(run(0x200) == "2");
  destroy_graph(0x101);
  CHECK(lost().empty());
  REQUIRE(instantiate(0x200, 0x102));
  CHECK(lost() == "2");
  CHECK(run(0x200).empty());
  CHECK_FALSE(nodes->may_run(0x200));
}

TEST_CASE_METHOD(GraphNodesFixture, "a failed capture takes its graph with it") {
  REQUIRE(allocate(0x100, 1, true));
  REQUIRE(allocate(0x101, 2, true));
  REQUIRE(allocate(0x102, 3));
  nodes->end_capture(0x101);
  nodes->captures_failed(gone());
  CHECK(lost() == "1");
  REQUIRE(instantiate(0x200, 0x100));
  CHECK(run(0x200).empty());
  REQUIRE(instantiate(0x201, 0x101));
  CHECK(run(0x201) == "2");
}

TEST_CASE_METHOD(GraphNodesFixture, "places of nodes are used again, and their number is bounded", "[one-thread]") {
  for (int round = 0; round < 100; ++round) {
    for (format::Ref record = 1; record <= 1000; ++record) REQUIRE(allocate(0x100, record));
    REQUIRE(instantiate(0x200, 0x100));
    destroy_graph(0x100);
    destroy_exec(0x200);
    lost_.clear();
  }
  format::Ref record = 1;
  while (record < (2U << 20) && allocate(0x100, record)) ++record;
  CHECK(record > (1U << 19));
  CHECK(record < (2U << 20));
  REQUIRE(instantiate(0x200, 0x100));
  CHECK(nodes->may_run(0x200));
}
