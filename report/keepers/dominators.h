// Dominators of a directed graph: a node dominates another one when each path from the start to that one leads over it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace culprit::report {

constexpr std::uint32_t kNoNode = 0xffffffff;

// The immediate dominator of each of `count` nodes, from node 0 on. Of node 0, and of nodes that cannot be reached from
// it: kNoNode. `edges`: from, to; both below `count`. The algorithm of Lengauer and Tarjan ("A fast algorithm for
// finding dominators in a flowgraph", 1979) with path compression: O(edges * log(nodes)).
std::vector<std::uint32_t> immediate_dominators(std::uint32_t count,
                                                const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

}  // namespace culprit::report
