// Memory that graphs allocate, followed through their launches (dump/graph_nodes.h has the driver's rules).
//
// An allocating node has an AllocationRecord from the start, marked kFlagNotPhysical (0 bytes). A launch makes it
// physical; a free, from outside or by another graph's launch, takes that back, because the next launch allocates the
// memory again. A launch that succeeds with the memory of the one before still there has freed it itself (auto-free).
//
// Every function is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include "interpose/recorder/events.h"
#include "interpose/recorder/process.h"

namespace culprit {

// A node that allocates was added to `graph`; `made` says of which kind its call is. `captured`: by a stream capture.
void note_graph_allocation(Made made, std::uint64_t graph, bool captured);

// A call added a node to `graph` that frees the memory of `ending`, with this answer of the driver.
void finish_free_node(Ending& ending, CUresult status, std::uint64_t graph, bool captured);

void note_child_moved(std::uint64_t child, std::uint64_t graph);
// `graph`: 0 = the capture failed.
void note_capture_ended(std::uint64_t graph);
// An executable was made from `graph` (note_made() calls this), or updated from it.
void note_executable(std::uint64_t exec, std::uint64_t graph);
void note_graph_destroyed(std::uint64_t graph);
void note_executable_destroyed(std::uint64_t exec);

CULPRIT_COLD void note_memory_launched(std::uint64_t exec);
// An executable was launched. Graphs with memory nodes are rare, and others cost two loads.
inline void note_launched(std::uint64_t exec) {
  Process* process = __atomic_load_n(&quick_process, __ATOMIC_ACQUIRE);
  if (process == nullptr) process = process_if_recording();
  if (process == nullptr) return;
  process->meter.note_graph_changed();
  if (CULPRIT_UNLIKELY(process->tables.graphs.may_run(exec))) note_memory_launched(exec);
}

// The program freed memory that a graph may allocate again (kFlagInGraph). False: no graph does any more.
CULPRIT_COLD bool keep_for_launch(Process& process, format::Ref ref, format::Ref stack);

}  // namespace culprit
