// Follows the pointers of global variables into the heap, to the handles that it holds.
//
//     g_engine --> chunk --> chunk: a handle
//
// The driver keeps copies of each handle in the same heap (5 to 24 of each, measured), so its own chunks have to be
// left out. Nothing marks them. If the program's pointers lead to a handle at all, the search follows the pointers of
// the data of the driver and of NVIDIA's other libraries, and marks what it reaches; then again those of the program,
// without a step into a marked chunk. The driver reaches memory of the program, too, through stale pointers in memory
// that malloc() gave it: so the search enters the marked chunks at last, and their records say that a report may rely
// on them only with a type for each step. Chunks that the handle of a driver's object points to (a context, a stream,
// an executable graph) are never entered.
#pragma once

#include <cstdint>

#include "interpose/causes/handle_set.h"
#include "interpose/causes/thread_local_data.h"
#include "interpose/format/dump_format.h"
#include "interpose/system/written_memory.h"

namespace culprit {

struct Process;

// Ranges of data in which the search begins.
struct HeapRoots {
  const MemoryRange* program;
  int program_count;
  const ThreadLocals& thread_locals;  // these are the last ones of `program`
  const MemoryRange* driver;
  int driver_count;
};

// An address in thread-local data, coded like the place of a holder.
std::uint64_t thread_local_place(Process& process, const ThreadLocalData& data, std::uint64_t address);

// Writes a HeapHolderRecord, and the HeapStepRecords that lead to it, for each of `handles` that it finds; handles that
// were found before are passed over. Ends when all are found, when CLOCK_MONOTONIC passes `deadline_ns`, or when it has
// read as much as CULPRIT_SCAN_BYTES says. Adds the bytes to `*bytes`. Call on the tracker's own stack, inside a
// Recording. Takes no lock, allocates private memory only.
format::HeapSearch search_heap(Process& process, HandleSet& handles, const HeapRoots& roots, std::uint64_t deadline_ns,
                               std::uint64_t* bytes);

}  // namespace culprit
