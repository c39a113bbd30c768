// The memory that the driver took by itself, and the balance of a device. Part of dump_format.h.
#pragma once

#include "interpose/format/dump_records.h"
#include "interpose/format/gpu_questions.h"

namespace culprit::format {

// The purposes for which the driver takes memory.
enum class DriverMemory : std::uint8_t {
  kNone = 0,
#define DRIVER_MEMORY(number, enumerator) enumerator = (number),
#include "interpose/format/driver_memory.def"
};

constexpr std::uint32_t kDriverMemoryKinds = 16;

// Memory in use on the device was read before and after a call, and had grown. Equal calls (stack, api, context) share
// a record. Calls that took nothing have none, except those that made executable graphs.
struct CallChargeRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref stack;
  std::int64_t bytes;   // live: taken by all of these calls; negative: given back
  std::uint64_t count;  // live: of these calls
  std::uint64_t first_ns;
  std::uint64_t last_ns;  // live
  std::uint32_t thread;   // of the first one
  std::uint32_t context;  // index into contexts, kNoIndex = none was current
  std::uint16_t api;
  std::uint8_t device;
  DriverMemory what;
  // Executable graphs of these calls, up to 2^32 - 1; 0 for other memory.
  std::uint32_t made;       // live
  std::uint32_t live;       // live: not destroyed
  std::uint32_t most_live;  // live: at once
};
static_assert(sizeof(CallChargeRecord) == 64);

// When a balance was taken.
enum class Moment : std::uint8_t {
  kNone = 0,
  kPeak = 1,         // with the breakdown of the peak
  kOutOfMemory = 2,  // the last allocation that failed
  kExit = 3,         // in the exit handler
};

enum BalanceFlags : std::uint16_t {
  kBalancePools = 1,        // the default pool's figures were read
  kBalanceGraphs = 2,       // the graph pool's were
  kBalanceLimits = 4,       // the limits were: those of one context
  kBalanceExecutables = 8,  // `executables` and `executables_bytes` are known
};

// Figures of a device at one moment. Those of other threads' changes at this moment may be in some and missing in
// others.
struct BalanceRecord {
  std::uint32_t state;  // live: 0 = not valid, else the number of uses of the record
  Moment moment;
  std::uint8_t device;
  std::uint16_t flags;  // BalanceFlags
  std::uint64_t time_ns;
  std::uint64_t free_bytes;  // cuMemGetInfo
  std::uint64_t total_bytes;
  std::uint64_t executables_bytes;  // that the live executable graphs made the driver take; reused memory is not in it
  // Live memory by its sort.
  std::uint64_t allocated;    // in blocks of the driver: cuMemAlloc, arrays and the like, by requested sizes
  std::uint64_t in_blocks;    // the same, in the driver's blocks of 2 MiB
  std::uint64_t physical;     // cuMemCreate
  std::uint64_t managed;      // not part of the balance: it lies where it was touched last
  std::uint64_t from_pools;   // stream-ordered
  std::uint64_t from_graphs;  // by launched graphs
  // cuMemPoolGetAttribute and cuDeviceGetGraphMemAttribute: RESERVED_MEM_CURRENT, USED_MEM_CURRENT
  std::uint64_t default_reserved;
  std::uint64_t default_used;
  std::uint64_t custom_reserved;  // pools that the program made
  std::uint64_t custom_used;
  std::uint64_t graph_reserved;
  std::uint64_t graph_used;
  std::uint64_t stack_limit;  // cuCtxGetLimit
  std::uint64_t printf_limit;
  std::uint64_t heap_limit;
  std::uint32_t multiprocessors;
  std::uint32_t threads;      // that each of them can run at a time
  std::uint64_t unmeasured;   // calls whose growth is not known: during a capture, or too many in a short time
  std::uint32_t uses;         // for the writer only: how often the record was written
  std::uint32_t executables;  // live executable graphs
  std::uint64_t together;     // calls that ran at the same time as others: their growth is in `taken` only
  std::int64_t taken[kDriverMemoryKinds];  // by DriverMemory, by calls so far, without contexts that ended
};
static_assert(sizeof(BalanceRecord) == 320);

// The processes on a device at the moment of the balance with the same place among its device's records, and how far
// its figures are this process's own.
struct ShareRecord {
  std::uint32_t state;  // live: 0 = not valid, else as of BalanceRecord
  Moment moment;
  std::uint8_t device;
  std::uint16_t unproven;        // a bit for each DriverMemory: cuMemGetInfo alone made a charge, or a part of it
  std::uint64_t time_ns;         // that of the balance
  std::uint64_t not_attributed;  // calls whose growth no figure of this process told, while others used the device
  std::uint32_t seen_others;  // answers so far that named other processes, and readings that others must have changed
  std::uint32_t uses;         // for the writer only
  GpuAccount account;
};
static_assert(sizeof(ShareRecord) == 176);

}  // namespace culprit::format
