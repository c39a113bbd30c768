// Records of allocations, stacks, modules, threads, contexts, devices and times. Part of dump_format.h.
#pragma once

#include "interpose/format/dump_file.h"
#include "interpose/format/kinds.h"

namespace culprit::format {

enum class AllocationState : std::uint32_t {
  kEmpty = 0,
  kLive = 1,
  kFreeing = 2,  // a free was recorded and the driver has not answered yet: still live for a reader
};
constexpr std::uint32_t kStateBits = 2;  // AllocationRecord::state = generation << kStateBits | AllocationState
constexpr AllocationState state_of(std::uint32_t state) {
  return static_cast<AllocationState>(state & ((1U << kStateBits) - 1));
}

enum AllocationFlags : std::uint8_t {
  kFlagExitPhase = 1,       // made while exit handlers were running
  kFlagNotPhysical = 2,     // counts 0 bytes: graph memory that no launch has allocated, or that was freed since; a
                            // region or heap, which is a part of other memory
  kFlagHandleReleased = 4,  // VMM physical memory whose handle was released but that is still mapped
  kFlagFreeFailed = 8,      // a free of it was refused; `evidence` names the error, unless its table was full
  kFlagShared = 16,         // in a live record: a SharingRecord names it
  kFlagEnded = 16,          // in an empty record, for the writer only: `ended` says where it was ended ...
  kFlagTornDown = 32,       // ... and it was released with its context
  kFlagForgotten = 64,      // in an empty record, for the writer only: `ended` is void, its stacks may be gone
  kFlagInGraph = 128,       // graph memory that a launch may allocate again
};

struct AllocationRecord {
  std::uint32_t state;  // live
  Ref stack;            // where it was made; 0 = not recorded
  std::uint64_t handle;
  std::uint64_t bytes;  // physical bytes (see report/manual/reading.md); of a region (live) and a heap: its size
  union {
    std::uint64_t extra;  // by kind: pitch, virtual size, pool handle, references of a user object; of an array its
                          // layout (array_layout.h); of an executable graph: bytes that it made the driver take (live),
                          // kContextGone when its context ended
    struct {
      Ref stack;            // live: of the launch that allocated it last; with kFlagNotPhysical: of its last free
      std::uint32_t times;  // live: launches that allocated it
    } launched;             // graph memory
    struct {
      Ref name;   // live: MarkRecord of kind kRegionName; 0 = none
      Ref heap;   // of a region: the record of the heap that it was announced in; 0 = none, or the heap's is reused
    } announced;  // regions and heaps
    struct {
      Ref stack;
      std::uint32_t thread;
    } ended;  // in an empty record with kFlagEnded: where it was ended
  };
  std::uint64_t time_ns;  // in a busy thread only as exact as the kernel's tick (1 to 10 ms), see clock.h; of graph
                          // memory: of its last launch (live)
  std::uint32_t thread;   // index into threads
  std::uint32_t context;  // index into contexts, kNoIndex = no context was current
  Ref evidence;           // live: EvidenceRecord, why it was not freed; 0 = none
  std::uint16_t api;      // index into apis
  std::uint8_t device;    // ordinal as the process sees it, kNoDevice = none
  Kind kind;
  std::uint8_t flags;              // live: AllocationFlags
  std::uint8_t handle_references;  // VMM physical memory, IPC memory: releases still needed
  std::uint16_t mappings;          // VMM physical memory: number of its mappings
  union {
    Ref label;     // LabelRecord: open marks and ranges of its thread; 0 = none
    Ref physical;  // for a VMM mapping: the memory mapped there; 0 = not known
  };
};

// Whether a record is of a live allocation, while another thread may change that. The record's other fields are then
// complete.
inline bool is_live_now(const AllocationRecord& record) {
  return state_of(__atomic_load_n(&record.state, __ATOMIC_ACQUIRE)) == AllocationState::kLive;
}
static_assert(sizeof(AllocationRecord) == 64);
static_assert(offsetof(AllocationRecord, time_ns) == 32);
static_assert(offsetof(AllocationRecord, evidence) == 48);

constexpr std::uint32_t kNoIndex = 0xffffffff;
constexpr std::uint64_t kContextGone = ~0ULL;
constexpr std::uint8_t kNoDevice = 0xff;

// A frame is one number: bit 63 set = the address is the frame's current instruction (interrupted by a signal); clear =
// it is a return address, the call lies just before it. Bits 48..62: module index + 1, 0 = no known module (the offset
// is then the address). Bits 0..47: address minus the module's load bias, i.e. the virtual address inside the ELF file.
constexpr std::uint64_t kFrameExact = 1ULL << 63;
constexpr int kFrameModuleShift = 48;
constexpr std::uint64_t kFrameModuleMask = 0x7fff;
constexpr std::uint64_t kFrameOffsetMask = (1ULL << 48) - 1;
// In place of the module index + 1: a Python frame; bits 0..31 are the Ref of its PythonFrameRecord.
constexpr std::uint64_t kPythonModule = kFrameModuleMask;

struct PythonFrameRecord {
  Ref file;                  // string, as in the code object: usually a path
  Ref function;              // string: qualified name
  std::uint32_t line;        // 0 = no line
  std::uint32_t first_line;  // of the function
  std::uint64_t identity;    // hash of all these, the same in other runs of the program
  std::uint32_t born;        // as in StackRecord: its room may have been reused
  std::uint32_t reserved;
};
static_assert(sizeof(PythonFrameRecord) == 32);

enum StackFlags : std::uint32_t {
  kStackTruncated = 1,  // deeper than stack_depth_limit
  kStackMerged = 2,     // stands for all stacks with these innermost frames that had no room of their own
  kStackFree = 4,       // unreferenced; its room may hold other stacks by now
};

// Followed by frame_count u64 frames, innermost first, padded to 16 bytes. Frames of libculprit.so itself are left out.
// The Python frames that an evaluation loop of the interpreter runs come before its native frame. Frame counts in other
// records count native frames only.
//
// The room of an unreferenced stack is reused, for stacks of other sizes. A reader of a running dump or of a snapshot
// detects this by `check` and `born`: a stack is valid if its `born` is at most the Header::stack_sweeps that the
// reader saw.
struct StackRecord {
  std::uint32_t frame_count;
  std::uint32_t flags;
  // The difference to the live allocations was freed, or released with its context.
  std::uint64_t allocations;      // live: allocations with this stack; a reader adds those in ThreadCounters
  std::uint64_t bytes_allocated;  // live: likewise
  std::uint32_t born;             // Header::stack_sweeps when it was written
  std::uint32_t check;            // stack_check(); 0 = written by an earlier version, which never reused room
};
static_assert(sizeof(StackRecord) == 32);

// A hash of the frames and `flags`: never 0.
inline std::uint32_t stack_check(const std::uint64_t* frames, std::uint32_t count, std::uint32_t flags) {
  std::uint64_t hash = count * 0x9e3779b97f4a7c15ULL ^ flags;
  for (std::uint32_t i = 0; i < count; ++i) hash = (hash ^ frames[i]) * 0xff51afd7ed558ccdULL ^ hash >> 29;
  return static_cast<std::uint32_t>(hash >> 32) | 1;
}

// Counts of one thread, or of several one after the other, that are not yet added to the sums in Header and
// StackRecord.
struct StackCounter {
  Ref stack;  // 0 = unused
  std::uint32_t reserved;
  std::uint64_t allocations;
  std::uint64_t bytes;
};
static_assert(sizeof(StackCounter) == 24);

constexpr std::uint32_t kStackCounters = 168;

struct ThreadCounters {
  std::uint64_t allocations;  // live
  std::uint64_t frees;        // live
  Ref self;
  Ref next_free;   // for the writer only: chain of blocks without a thread
  Ref next_block;  // for the writer only: chain of all blocks
  std::uint32_t reserved0;
  std::uint64_t objects;       // live: as in Header
  std::uint64_t object_frees;  // live
  std::uint8_t reserved[16];
  StackCounter stacks[kStackCounters];  // live
};
static_assert(sizeof(ThreadCounters) == 4096);

enum ModuleFlags : std::uint32_t {
  kModuleExecutable = 1,  // the program itself
  kModuleUnloaded = 2,    // live: unloaded (dlclose); another module may have its addresses
  kModuleNoFile = 4,      // vdso and the like
};

struct ModuleRecord {
  std::uint64_t load_bias;
  std::uint64_t begin;  // mapped range, absolute addresses
  std::uint64_t end;
  Ref path;             // string
  std::uint32_t flags;  // ModuleFlags
  std::uint8_t build_id_bytes;
  std::uint8_t build_id[31];
};
static_assert(sizeof(ModuleRecord) == 64);

// Followed by `bytes` bytes (no NUL needed), padded to 16 bytes.
struct StringRecord {
  std::uint32_t bytes;
  std::uint32_t reserved[3];
};
static_assert(sizeof(StringRecord) == 16);

enum class ThreadState : std::uint32_t { kEmpty = 0, kAlive = 1, kEnded = 2 };

struct ThreadRecord {
  ThreadState state;  // live
  std::uint32_t tid;
  // live: as last seen, NUL-terminated; or, when the program named it itself, twelve zeros and a Ref (string).
  char name[16];
  std::uint64_t first_seen_ns;
  std::uint64_t ended_ns;         // live
  std::uint64_t made;             // when ended: records that ever named it (its number is reused once none is left)
  std::uint64_t ended_by_itself;  // when ended: of those, ended by this thread
  std::uint64_t ended_by_others;  // live: of those, ended by other threads
};
static_assert(sizeof(ThreadRecord) == 64);
constexpr std::size_t kThreadNameRef = 12;  // where in `name`

enum ContextFlags : std::uint16_t {
  kContextMeasured = 1,  // `bytes` is known: memory in use was read before and after
  kContextFirst = 2,     // of the process on its device. There was none to ask before, and `bytes` is all that was in
                         // use on the device afterwards, by other processes too
};

enum class ContextState : std::uint32_t { kEmpty = 0, kAlive = 1, kDestroyed = 2 };

struct ContextRecord {
  ContextState state;  // live
  Ref stack;           // where it was created or first retained
  std::uint64_t handle;
  std::uint64_t created_ns;
  std::uint64_t destroyed_ns;  // live
  Ref destroy_stack;           // live
  std::uint16_t destroy_api;   // live
  std::uint8_t device;
  Kind kind;             // kContext, kPrimaryContext or kGreenContext
  std::uint16_t api;     // of the call that made it
  std::uint16_t flags;   // live: ContextFlags
  std::uint32_t thread;  // of that call
  std::uint64_t bytes;   // live: device memory that making it took; see `flags`
  std::uint8_t reserved[8];
};
static_assert(sizeof(ContextRecord) == 64);

enum DeviceFlags : std::uint32_t {
  kDeviceMig = 1,       // a MIG instance: the UUID is the instance's
  kDevicePoolRead = 2,  // live: the driver told pool_reserved and pool_used
};

struct MemoryReading {
  std::uint64_t time_ns;  // 0 together with total = 0: never read
  std::uint64_t free_bytes;
  std::uint64_t total_bytes;
};

struct DeviceRecord {
  std::uint32_t state;  // 1 = valid
  std::uint32_t ordinal;
  std::uint32_t flags;  // DeviceFlags
  std::uint32_t reserved0;
  std::uint8_t uuid[16];
  char name[96];
  MemoryReading first;       // live: cuMemGetInfo around the first call on the device
  MemoryReading peak;        // live: the reading with the least free bytes
  MemoryReading exit;        // live: in the exit handler
  std::uint64_t live_bytes;  // live: device memory recorded and not freed; while it runs, short by up to 4 MiB a thread
  std::uint64_t peak_live_bytes;  // live: the most of them at a time; with several threads right within 4 MiB a thread
  std::uint64_t pool_reserved;    // live: default memory pool at exit, cuMemPoolGetAttribute(RESERVED_MEM_CURRENT)
  std::uint64_t pool_used;        // live: likewise, USED_MEM_CURRENT
  // live: see metering/device_use.h. Stretches of the process's work on this device, by allocations, code and streams
  // that were made, and by launches; and the place of the last of the former among those of all devices, from 1 on.
  // 0: there was none, or the dump is of an older version.
  std::uint32_t made_stretches;
  std::uint32_t launch_stretches;
  std::uint32_t last_made;
  std::uint8_t reserved[12];
};
static_assert(sizeof(DeviceRecord) == 256);

constexpr std::uint32_t kTimeLineBuckets = 512;

// Bytes in use on a device during an interval, as DeviceRecord::live_bytes counts them.
struct TimeLineBucket {
  std::uint64_t low;
  std::uint64_t high;
  std::uint64_t last;
};
static_assert(sizeof(TimeLineBucket) == 24);

// Bucket i covers the time from i * bucket_ns on. When the buckets are used up, pairs of buckets are merged and
// bucket_ns doubles.
struct TimeLineRecord {
  std::uint32_t state;   // live: 0 = not valid; a sequence number, odd while the record is being changed
  std::uint32_t device;  // ordinal
  std::uint32_t used;    // live: number of valid buckets
  std::uint32_t reserved0;
  std::uint64_t bucket_ns;   // live
  std::uint64_t peak_bytes;  // live: maximum ...
  std::uint64_t peak_ns;     // live: ... and its first time
  std::uint64_t reserved1;
  TimeLineBucket buckets[kTimeLineBuckets];  // live
};
static_assert(sizeof(TimeLineRecord) == 48 + 24 * kTimeLineBuckets);

enum class MarkKind : std::uint32_t {
  kNone = 0,
  kMark = 1,        // opened and closed by the program (culprit.h)
  kRange = 2,       // an NVTX range in which something was allocated
  kMoment = 3,      // a moment named by the program
  kRegionName = 4,  // the name of an announced region or heap
};

// A name given by the program. Equal names (kind, name) share one record.
struct MarkRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref name;             // string
  MarkKind kind;
  std::uint32_t thread;  // of the first of these, kNoIndex = not known
  std::uint64_t first_ns;
  std::uint64_t last_ns;  // live
  std::uint64_t count;    // live: how often it was opened; for ranges, openings with an allocation
  std::uint64_t reserved;
};
static_assert(sizeof(MarkRecord) == 48);

// The innermost mark and the innermost NVTX range that were open in a thread when it allocated.
struct LabelRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref mark;             // MarkRecord; 0 = none
  Ref range;            // likewise
  std::uint32_t reserved;
};
static_assert(sizeof(LabelRecord) == 16);

enum SpanFlags : std::uint8_t {
  kSpanReadAtBegin = 1,  // memory in use was read at its begin, not at its first allocation
};

// An interval in which recording was on, from its first allocation on. Kept only when recording was off for part of the
// time between the first CUDA call and the end.
struct SpanRecord {
  std::uint32_t state;  // live: 1 = valid
  std::uint8_t device;  // whose memory was read at its begin, kNoDevice = none
  std::uint8_t flags;   // SpanFlags
  std::uint8_t reserved[2];
  std::uint64_t begin_ns;
  std::uint64_t end_ns;      // live: 0 = still open
  std::uint64_t used_bytes;  // in use at its begin, by all processes
  std::uint64_t total_bytes;
  std::uint64_t reserved1;
};
static_assert(sizeof(SpanRecord) == 48);

enum class BreakdownReason : std::uint8_t {
  kNone = 0,
  kPeak = 1,         // use was higher than ever before
  kOutOfMemory = 2,  // an allocation failed with CUDA_ERROR_OUT_OF_MEMORY
  kPythonEnds = 3,   // Python's main module has ended, and the interpreter begins to end
};

// One stack's share of a breakdown.
struct BreakdownShare {
  Ref stack;
  std::uint16_t api;  // of its first live allocation, like `kind`
  Kind kind;
  std::uint8_t reserved;
  std::uint64_t bytes;  // 0 = unused
  std::uint64_t count;
};
static_assert(sizeof(BreakdownShare) == 24);

constexpr std::uint32_t kBreakdownShares = 64;

// The live memory of a device at one moment: the stacks with the most bytes, and the sum of the others. Other threads
// are not stopped, so their concurrent changes may be included or missing. Records are reused.
struct BreakdownRecord {
  std::uint32_t state;  // live: 0 = not valid, else the number of uses of the record
  BreakdownReason reason;
  std::uint8_t device;
  std::uint16_t api;     // out of memory: the call that failed
  Ref stack;             // likewise
  std::uint32_t thread;  // that made the breakdown
  std::uint64_t time_ns;
  std::uint64_t asked_bytes;  // out of memory
  std::uint64_t live_bytes;
  std::uint64_t live_count;
  std::uint64_t free_bytes;  // cuMemGetInfo at that moment; total 0 = not known
  std::uint64_t total_bytes;
  std::uint64_t other_bytes;  // part of live_bytes, of stacks outside the list
  std::uint64_t other_count;
  std::uint32_t other_stacks;  // number of those stacks; too low if there were more than could be counted
  std::uint32_t times;         // live; out of memory: calls with this stack that failed so far
  std::uint8_t reserved[8];
  BreakdownShare shares[kBreakdownShares];  // most bytes first
};
static_assert(sizeof(BreakdownRecord) == 1632);

// The audit's count of a driver function that makes or ends something, or of its calls with one stack that were not
// recorded. Only successful calls, while recording was on.
struct AuditRecord {
  std::uint32_t state;         // live: 1 = valid
  Ref function;                // string: the driver's symbol
  Ref stack;                   // 0: all calls of the function; else where calls were made that were not recorded
  std::uint32_t thread;        // of the first of these calls
  std::uint64_t calls;         // live: seen by CUPTI
  std::uint64_t not_recorded;  // live: of them, calls without a hook that records them
  std::uint64_t bytes;         // live: that those allocated, as far as it is known
  std::uint64_t first_ns;
};
static_assert(sizeof(AuditRecord) == 48);

constexpr std::uint32_t kMostAuditStacks = 4;  // of a function

struct ApiRecord {
  char name[64];  // the driver symbol, e.g. "cuMemAlloc_v2", NUL-terminated
};
static_assert(sizeof(ApiRecord) == 64);

}  // namespace culprit::format
