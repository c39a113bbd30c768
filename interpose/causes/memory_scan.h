// Looks for handles in ranges of this process's own memory.
#pragma once

#include <cstdint>

#include "interpose/causes/handle_set.h"
#include "interpose/system/written_memory.h"

namespace culprit {

struct ScanResult {
  format::HolderSearch end;  // kDone or kStopped
  std::uint64_t bytes_read;
};

using FoundHandle = void (*)(void* context, format::Ref allocation, std::uint32_t tag, std::uint64_t address);

// Calls found(context, allocation, tag, address) for the first occurrence of each handle, in the order of `ranges`, in
// memory that read_written_memory() reads. Stops when every handle was found, when CLOCK_MONOTONIC passes
// `deadline_ns`, or when the kernel refuses to read. Never allocates. Changes errno.
ScanResult scan_memory(HandleSet& handles, const MemoryRange* ranges, int count, std::uint64_t deadline_ns,
                       FoundHandle found, void* context);

}  // namespace culprit
