// Looks for handles in ranges of this process's own memory, which may change, lose its access rights or go away
// meanwhile: reads copies that the kernel makes, so that unreadable memory is an error code and never a signal.
#pragma once

#include <cstdint>

#include "interpose/handle_set.h"

namespace culprit {

struct MemoryRange {
  std::uint64_t begin;  // multiples of 8
  std::uint64_t end;
};

struct ScanResult {
  format::HolderSearch end;  // kDone or kStopped
  std::uint64_t bytes_read;
};

using FoundHandle = void (*)(void* context, format::Ref allocation, std::uint32_t tag, std::uint64_t address);

// Calls found(context, allocation, tag, address) for the first place of each handle, in the order of `ranges`. Memory
// that was never written since it was mapped is left out where the kernel tells: it holds no handle, and reading it
// would take up memory. Stops when every handle was found, when CLOCK_MONOTONIC passes `deadline_ns`, and when the
// kernel refuses to read. Never allocates. Changes errno.
ScanResult scan_memory(HandleSet& handles, const MemoryRange* ranges, int count, std::uint64_t deadline_ns,
                       FoundHandle found, void* context);

}  // namespace culprit
