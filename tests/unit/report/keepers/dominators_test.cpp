// Dominators of random graphs, against their definition.
#include "report/keepers/dominators.h"

#include <random>

#include "tests/catch.h"

using namespace culprit::report;

namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// The nodes that can be reached from node 0 without `missing`.
std::vector<bool> reached_without(std::uint32_t count, const Edges& edges, std::uint32_t missing) {
  std::vector<bool> reached(count);
  std::vector<std::uint32_t> queue;
  if (missing != 0) queue.push_back(0);
  for (std::size_t i = 0; i < queue.size(); ++i) {
    reached[queue[i]] = true;
    for (const auto& [from, to] : edges) {
      if (from == queue[i] && to != missing && !reached[to]) {
        reached[to] = true;
        queue.push_back(to);
      }
    }
  }
  return reached;
}

// Every dominator of each node but itself.
std::vector<std::vector<std::uint32_t>> by_definition(std::uint32_t count, const Edges& edges) {
  std::vector<std::vector<std::uint32_t>> dominators(count);
  const std::vector<bool> reached = reached_without(count, edges, kNoNode);
  for (std::uint32_t above = 0; above < count; ++above) {
    const std::vector<bool> without = reached_without(count, edges, above);
    for (std::uint32_t node = 0; node < count; ++node) {
      if (node != above && reached[above] && reached[node] && !without[node]) dominators[node].push_back(above);
    }
  }
  return dominators;
}

std::vector<std::uint32_t> chain(const std::vector<std::uint32_t>& immediate, std::uint32_t node) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t at = immediate[node]; at != kNoNode; at = immediate[at]) all.push_back(at);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("dominators are the nodes that each path leads over", "[keepers]") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto count = static_cast<std::uint32_t>(1 + random() % 14);
    Edges edges;
    const std::size_t wanted = random() % (3 * count);
    for (std::size_t i = 0; i < wanted; ++i)
      edges.emplace_back(static_cast<std::uint32_t>(random() % count), static_cast<std::uint32_t>(random() % count));
    const std::vector<std::uint32_t> immediate = immediate_dominators(count, edges);
    const std::vector<std::vector<std::uint32_t>> expected = by_definition(count, edges);
    REQUIRE(immediate.size() == count);
    for (std::uint32_t node = 0; node < count; ++node) CHECK(chain(immediate, node) == expected[node]);
  }
}

TEST_CASE("dominators of a long chain need no deep recursion", "[keepers]") {
  constexpr std::uint32_t kCount = 200'000;
  Edges edges;
  for (std::uint32_t i = 1; i < kCount; ++i) {
    edges.emplace_back(i - 1, i);
    if (i > 1) edges.emplace_back(i - 2, i);  // only the start dominates
  }
  const std::vector<std::uint32_t> immediate = immediate_dominators(kCount, edges);
  CHECK(immediate[1] == 0);
  CHECK(immediate[2] == 0);
  CHECK(immediate[kCount - 1] == 0);
  CHECK(immediate_dominators(0, {}).empty());
  CHECK(immediate_dominators(1, {}) == std::vector<std::uint32_t>{kNoNode});
}
