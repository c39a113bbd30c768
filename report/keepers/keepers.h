// Which variables keep the live blocks of a framework's cache.
#pragma once

#include <cstdint>
#include <vector>

#include "report/keepers/heap_paths.h"
#include "report/model/keeper.h"

namespace culprit::report {

struct LiveBlock : MemoryBlock {
  bool private_pool = false;  // of a CUDA graph
};

// One row for each keeper, the largest first; their bytes are those of `blocks`. Blocks that overlap are taken once.
std::vector<Keeper> find_keepers(const ObjectGraph& graph, std::vector<LiveBlock> blocks);

// Sorts them, the largest first, and puts all after the first `most` into one row of those that are not known.
void keep_largest(std::size_t most, std::vector<Keeper>* keepers);

}  // namespace culprit::report
