// The driver's own records of allocations. They lie in the heap among the program's chunks, hold the address, and old
// words in the chunks of a statically linked runtime lead to them: such a record is no holder.
//
// Each allocation has an identity that the driver stores in its record, beside the address. A record of memory that the
// driver made for itself has the same form. Ranges and segments of device memory, and allocations of pools, have
// records, too. Where another driver has other forms, its records count as the program's: a loss stays unseen.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/gpu_blocks.h"

namespace culprit {

class MemoryMap;

// Asks the driver for the identities of at most kMostAsked blocks. While a DriverUse exists.
constexpr std::uint32_t kMostAsked = 16384;
void ask_identities(GpuBlocks* blocks);

// Whether the chunk of malloc from `begin` to `end` is such a record.
bool is_driver_record(std::uint64_t begin, std::uint64_t end, const GpuBlocks& blocks, const MemoryMap& map);

}  // namespace culprit
