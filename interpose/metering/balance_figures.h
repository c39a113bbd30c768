// The driver's own figures of a device, and the sums of its records, for a balance.
//
// Call with a context of the device current to the calling thread and while no stream is being captured. A figure that
// the driver does not tell is left as it was, and its flag is not set. Thread-safe; on the tracker's own stack only.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// Adds the bytes of a pool. False: the driver did not tell.
bool read_pool(CUmemoryPool pool, std::uint64_t* reserved, std::uint64_t* used);

// The memory that the driver keeps for the memory nodes of graphs. False: the driver did not tell.
bool read_graph_reserved(std::uint8_t device, std::uint64_t* bytes);

// The pools of the device `balance->device` and its memory for graphs.
void read_pools(Process& process, format::BalanceRecord* balance);

// The limits of the current context, and how many threads the device can run at a time.
void read_limits(format::BalanceRecord* balance);

// The live memory of the device by its sort.
void add_up_live(Process& process, format::BalanceRecord* balance);

}  // namespace culprit
