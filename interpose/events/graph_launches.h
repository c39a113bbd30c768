// Memory that graphs allocate, followed through their launches (dump/graph_nodes.h has the driver's rules).
//
// An allocating node has an AllocationRecord from the start, marked kFlagNotPhysical (0 bytes). A launch makes it
// physical; a free, from outside or by another graph's launch, takes that back, because the next launch allocates the
// memory again. A launch that succeeds with the memory of the one before still there has freed it itself (auto-free).
//
// Every function is thread-safe, keeps errno, never throws, and does nothing when recording is off.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/base/spin_lock.h"
#include "interpose/dump/graph_nodes.h"
#include "interpose/dump/live_table.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/process/recording.h"

namespace culprit {

constexpr std::uint8_t kGraphMemorySpace = space_of(format::Kind::kGraphMemory);

// Calls work(process, nodes) with the table locked.
template <typename Work>
void with_graph_nodes(Work work) {
  record_on_own_stack([&](Process& process) {
    SpinGuard guard(process.tables.graphs.lock());
    work(process, process.tables.graphs);
  });
}

// `set` and `clear`: format::AllocationFlags. With the table locked.
inline void set_record_flags(format::AllocationRecord& record, unsigned set, unsigned clear) {
  __atomic_store_n(&record.flags, static_cast<std::uint8_t>((record.flags | set) & ~clear), __ATOMIC_RELAXED);
}

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
  graph_bytes_of(*process).note_change();
  if (CULPRIT_UNLIKELY(process->tables.graphs.may_run(exec))) note_memory_launched(exec);
}

// The program freed memory that a graph may allocate again (kFlagInGraph). False: no graph does any more.
CULPRIT_COLD bool keep_for_launch(Process& process, format::Ref ref, format::Ref stack);

}  // namespace culprit
