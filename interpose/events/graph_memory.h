// The nodes of graphs that allocate memory, or free it (graph_launches.h).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/events/events.h"

namespace culprit {

// A node that allocates was added to `graph`; `made` says of which kind its call is. `captured`: by a stream capture.
void note_graph_allocation(Made made, std::uint64_t graph, bool captured);

// A call added a node to `graph` that frees the memory of `ending`, with this answer of the driver.
void finish_free_node(Ending& ending, CUresult status, std::uint64_t graph, bool captured);

}  // namespace culprit
