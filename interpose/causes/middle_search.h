// Pointers into the middle of an allocation: a cursor, a part of a pool. The variable that has one still knows the
// memory, although not its handle. And handles at addresses that are no multiples of 8.
#pragma once

#include <cstdint>

#include "interpose/causes/handle_set.h"
#include "interpose/causes/memory_scan.h"
#include "interpose/system/written_memory.h"

namespace culprit {

struct Process;

// Calls found(context, allocation, tag, address) once for each allocation of `handles` that was not found yet and into
// which a word of `ranges` points, behind its first byte; or to its first byte, if `address` is no multiple of 8. Reads
// memory as scan_memory() does. Stops when CLOCK_MONOTONIC passes `deadline_ns`. Allocates private memory only; changes
// errno.
ScanResult search_middles(Process& process, const HandleSet& handles, const MemoryRange* ranges, int count,
                          std::uint64_t deadline_ns, FoundHandle found, void* context);

}  // namespace culprit
