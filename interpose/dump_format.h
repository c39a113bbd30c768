// The layout of a dump: the one thing that libculprit.so (which writes it) and the culprit command (which reads it)
// share.
//
// A dump is the tracker's own memory. The file is mapped shared into the target from its first CUDA call on, so there
// is no "write at exit" to lose: after SIGKILL the file holds everything up to the last finished call, and while the
// target runs any reader can open the same file.
//
//     0          4096                                              header.file_bytes
//     +----------+----------------+----------------+-- ... --+-------+
//     |  Header  | chunk          | chunk          |         | chunk |
//     +----------+----------------+----------------+-- ... --+-------+
//                 ChunkHeader (64 B), then records of one type, the chunk padded to a multiple of 4096 bytes
//
// All numbers are little-endian and of fixed width; there are no pointers. Where a record names another one it holds a
// Ref: the other record's offset in the file divided by 16, or 0 for "none". A reader must treat every offset, count
// and Ref as hostile input. A tail of zeros in a chunk was reserved and never written; that is no error.
//
// Publishing: a record whose first field is `state` is valid when state is not zero. The writer fills the other fields
// first and stores `state` last, with release order; it clears `state` before it re-uses a record. The upper bits of
// `state` are a generation: a reader of a running target copies the record, re-reads `state` and drops the copy if the
// value changed. Records without `state` (strings, stacks, modules) are written before the chunk's `used` is advanced,
// and never change afterwards, except for the counters marked "live".
//
// Versions
//   1   first version
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit::format {

constexpr char kMagic[8] = {'C', 'U', 'L', 'P', 'R', 'I', 'T', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kOldestReadableVersion = 1;
constexpr std::uint32_t kByteOrderMark = 0x01020304;
constexpr std::uint64_t kHeaderBytes = 4096;
constexpr std::uint64_t kChunkAlignment = 4096;
constexpr std::uint64_t kRefUnit = 16;

using Ref = std::uint32_t;  // file offset / kRefUnit; 0 = none

enum class ProcessState : std::uint32_t {
  kRunning = 0,   // also what a killed process leaves behind
  kExiting = 1,   // exit handlers are running
  kExited = 2,    // exit(), return from main, quick_exit() or _exit()
  kDetached = 3,  // by `culprit detach`; what the process did afterwards was not seen
};

enum class StopReason : std::uint32_t {
  kNone = 0,
  kNoSpace = 1,        // posix_fallocate failed: stop_errno says why
  kFileSizeLimit = 2,  // RLIMIT_FSIZE; growing further would have killed the target with SIGXFSZ
  kTooLarge = 3,       // the address range reserved for the dump is used up
  kFileReplaced = 4,   // our descriptor was closed by the target and the file could not be opened again
  kNoMemory = 5,       // the private index could not grow (mmap failed): stop_errno says why
};

// The search for globals that hold live handles, at exit.
enum class HolderSearch : std::uint32_t {
  kNotRun = 0,   // the process did not end by an exit handler
  kDone = 1,     // or nothing was unfreed
  kOff = 2,      // CULPRIT_SCAN=off
  kStopped = 3,  // given up: no room, or it took too long
};

// Whether stacks have Python frames.
enum class PythonState : std::uint32_t {
  kNoPython = 0,
  kNotChecked = 1,      // an interpreter was found, and no Python code called CUDA yet
  kRead = 2,            // yes
  kUnknownVersion = 3,  // no: a version whose layout is not known
  kDiffers = 4,         // no: the interpreter's layout is not that of its version
};

// Whether new allocations are recorded. Those that were are followed in any case.
enum class RecordingState : std::uint32_t { kOn = 0, kOff = 1 };

// What `culprit start` and `culprit stop` queue with the signal (sigqueue).
constexpr int kSwitchOn = 0x43554c01;
constexpr int kSwitchOff = 0x43554c00;

// How libculprit.so came into the process.
enum class Attached : std::uint32_t {
  kNo = 0,  // it was there from the start
  kRedirect = 1,
  kCupti = 2,
};

enum AttachFlags : std::uint32_t {
  kAttachSeesThrows = 1,  // exceptions are followed as in a process in which the library was from the start
};

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;  // kHeaderBytes
  std::uint32_t byte_order;    // kByteOrderMark as the writer stores it
  std::uint32_t reserved0;
  std::uint64_t file_bytes;  // live: bytes reserved and structured so far; chunks lie in [header_bytes, file_bytes)

  // The process.
  std::uint32_t pid;  // as the process sees it (in its own pid namespace)
  std::uint32_t parent_pid;
  std::uint64_t pid_namespace;      // inode of /proc/self/ns/pid
  std::uint64_t start_time_ticks;   // field 22 of /proc/self/stat: with boot_id it makes the pid unique
  std::uint64_t start_realtime_ns;  // CLOCK_REALTIME at time 0 of this dump (the first CUDA call)
  char boot_id[40];                 // /proc/sys/kernel/random/boot_id
  char host[64];
  Ref executable;         // string
  Ref command_line;       // string: arguments separated by NUL
  Ref working_directory;  // string
  Ref tool_version;       // string: version of libculprit.so

  // How it went.
  ProcessState process_state;         // live
  std::int32_t exit_status;           // valid when kExited
  std::uint64_t end_time_ns;          // live: since time 0; valid when kExiting or kExited
  StopReason stop_reason;             // live: why recording stopped; kNone while it goes on
  std::int32_t stop_errno;            // live
  std::uint64_t stop_time_ns;         // live
  std::uint64_t dropped_allocations;  // live: allocations that happened and were not recorded
  std::uint64_t dropped_stacks;       // live: allocations recorded without their stack
  std::uint64_t dropped_others;       // live: errors, contexts, threads, releases that found no room
  std::uint64_t allocations;        // live: successful calls that made something; a reader adds those in ThreadCounters
  std::uint64_t frees;              // live: successful calls that ended something; likewise
  std::uint64_t late_frees;         // live: frees refused because the driver was shutting down
  std::uint64_t unknown_frees;      // live: successful frees of something never seen (made before recording began)
  std::uint64_t hook_calls;         // live: 1 as soon as any hook was called (a CUDA library alone does not set it)
  std::int32_t driver_version;      // cuDriverGetVersion, 0 = unknown
  std::uint32_t stack_depth_limit;  // CULPRIT_DEPTH
  std::uint64_t stacks_verified;    // live: with CULPRIT_VERIFY_STACKS=1, remembered stacks that were compared ...
  std::uint64_t stack_mismatches;   // live: ... and were wrong
  HolderSearch holder_search;       // live
  std::uint32_t reserved2;
  std::uint64_t holder_search_ns;     // live: how long it took
  std::uint64_t holder_search_bytes;  // live: how much module data was read
  std::uint64_t throws;               // live: exceptions seen
  std::uint64_t contexts_verified;    // live: with CULPRIT_VERIFY_STACKS=1, remembered current contexts that were asked
                                      // for again ...
  std::uint64_t context_mismatches;   // live: ... and were others
  std::uint64_t injected_failures;    // live: calls that CULPRIT_FAIL made fail
  Ref exit_stack;  // stack: of the call of exit(), main's caller's too; kept only when CULPRIT_FAIL is set
  std::uint32_t python_version;    // PY_VERSION_HEX of the interpreter in the process, 0 = none, or older than 3.9
  PythonState python_state;        // live
  RecordingState recording_state;  // live: as it was switched last
  std::uint64_t process_age_ns;    // how long the process had run at time 0; 0 = not known
  std::uint64_t last_switch_ns;    // live: 0 = never switched
  std::uint64_t snapshot_ns;       // 0: the dump itself; else a copy of it, as it stood at this time
  std::uint64_t dropped_marks;     // live: marks and ranges in which something was made, and that found no room
  Attached attached;
  std::uint32_t attach_flags;      // AttachFlags
  std::uint32_t rank;              // in its parallel job, plus 1; 0 = in none
  std::uint32_t job_size;          // ranks that the job has, 0 = not known
  std::uint64_t unknown_refusals;  // live: refused frees of something never seen, when recording had not always been on
  std::uint8_t reserved1[4096 - 432];
};
static_assert(sizeof(Header) == kHeaderBytes);
static_assert(offsetof(Header, file_bytes) == 24);
static_assert(offsetof(Header, boot_id) == 64);
static_assert(offsetof(Header, process_state) == 184);
static_assert(offsetof(Header, dropped_allocations) == 216);

enum class ChunkType : std::uint32_t {
  kAllocations = 1,    // AllocationRecord[]
  kStacks = 2,         // StackRecord + frames, packed; `used` counts bytes
  kModules = 3,        // ModuleRecord[]
  kStrings = 4,        // StringRecord + bytes, packed; `used` counts bytes
  kThreads = 5,        // ThreadRecord[]
  kContexts = 6,       // ContextRecord[]
  kDevices = 7,        // DeviceRecord[]
  kErrors = 8,         // ErrorRecord[]
  kReleases = 9,       // ReleaseRecord[]
  kApis = 10,          // ApiRecord[]: index = the api numbers that other records hold
  kCounters = 11,      // ThreadCounters[]
  kThrows = 12,        // ThrowRecord[]
  kFailedCalls = 13,   // FailedCallRecord[]
  kEvidence = 14,      // EvidenceRecord[]
  kHolders = 15,       // HolderRecord[]
  kSites = 16,         // SiteRecord[]
  kPythonFrames = 17,  // PythonFrameRecord[]
  kSpans = 18,         // SpanRecord[]
  kMarks = 19,         // MarkRecord[]
  kLabels = 20,        // LabelRecord[]
  kTimeLines = 21,     // TimeLineRecord[]
  kPictures = 22,      // PictureRecord[]
};

constexpr std::uint32_t kChunkMagic = 0x4b4e4843;  // "CHNK"

struct ChunkHeader {
  std::uint32_t magic;  // live: stored last, with release order
  ChunkType type;
  std::uint64_t bytes;         // whole chunk with this header, a multiple of kChunkAlignment
  std::uint64_t used;          // live: bytes of payload used. For record arrays: records ever handed out * record_bytes
  std::uint32_t record_bytes;  // 0 for packed chunks
  std::uint32_t first_index;   // index of the first record (modules, threads, contexts, devices, apis), else 0
  std::uint8_t reserved[32];
};
static_assert(sizeof(ChunkHeader) == 64);

// What was made. The values are part of the format: append only.
enum class Kind : std::uint8_t {
  kNone = 0,
  // Memory.
  kDevice = 1,           // cuMemAlloc
  kManaged = 2,          // cuMemAllocManaged
  kPitched = 3,          // cuMemAllocPitch
  kPinnedHost = 4,       // cuMemAllocHost, cuMemHostAlloc
  kRegisteredHost = 5,   // cuMemHostRegister: the caller's memory, pinned
  kArray = 6,            // cuArrayCreate, cuArray3DCreate
  kMipmappedArray = 7,   // cuMipmappedArrayCreate
  kStreamOrdered = 8,    // cuMemAllocAsync, cuMemAllocFromPoolAsync
  kVmmPhysical = 9,      // cuMemCreate: counted here once
  kVmmReservation = 10,  // cuMemAddressReserve: 0 physical bytes, virtual size in `extra`
  kVmmMapping = 11,      // cuMemMap: 0 physical bytes, virtual size in `extra`
  kVmmImported = 12,     // cuMemImportFromShareableHandle: 0 bytes, the exporter counts them
  kIpcMemory = 13,       // cuIpcOpenMemHandle: 0 bytes
  kExternalMemory = 14,  // cuImportExternalMemory: 0 bytes, size in `extra`
  kExternalBuffer = 15,  // cuExternalMemoryGetMappedBuffer: 0 bytes, size in `extra`
  kMemoryPool = 16,      // cuMemPoolCreate
  kPoolImport = 17,      // cuMemPoolImportFromShareableHandle, cuMemPoolImportPointer
  kGraphMemory = 18,     // cuGraphAddMemAllocNode, cuMemAllocAsync under capture; physical once the graph was launched
  kMulticast = 19,       // cuMulticastCreate: 0 bytes
  // Not memory ("resources").
  kContext = 32,
  kPrimaryContext = 33,
  kGreenContext = 34,
  kStream = 35,
  kEvent = 36,
  kGraph = 37,
  kGraphExec = 38,
  kModule = 39,
  kLibrary = 40,
  kTextureObject = 41,
  kSurfaceObject = 42,
  kExternalSemaphore = 43,
  kGraphicsResource = 44,
  kUserObject = 45,
  kLinkState = 46,
  kTextureReference = 47,
};

enum class AllocationState : std::uint32_t {
  kEmpty = 0,
  kLive = 1,
  kFreeing = 2,  // a free was recorded and the driver has not answered yet: still live for a reader
};
constexpr std::uint32_t kStateBits = 2;  // AllocationRecord::state = generation << kStateBits | AllocationState

enum AllocationFlags : std::uint8_t {
  kFlagExitPhase = 1,       // made while exit handlers were running
  kFlagNotPhysical = 2,     // graph memory that no launch has made real yet: counts 0 bytes
  kFlagHandleReleased = 4,  // VMM physical memory whose handle was released but that is still mapped
  kFlagFreeFailed = 8,      // a free of it was refused; `evidence` names the error, unless its table was full
  kFlagEnded = 16,          // in an empty record, the writer's: how it was ended is in `extra` ...
  kFlagTornDown = 32,       // ... and it went with its context
};

struct AllocationRecord {
  std::uint32_t state;  // live
  Ref stack;            // where it was made; 0 = not recorded
  std::uint64_t handle;
  std::uint64_t bytes;    // physical bytes (see "What counts" in README)
  std::uint64_t extra;    // by kind: pitch, virtual size, pool handle, owning graph, references of a user object
  std::uint64_t time_ns;  // in a thread that makes many things a tick of the kernel (1 to 10 ms): after that tick
  std::uint32_t thread;   // index into threads
  std::uint32_t context;  // index into contexts, kNoIndex = none was current
  Ref evidence;           // live: EvidenceRecord, what is known of why it was not freed; 0 = nothing
  std::uint16_t api;      // index into apis
  std::uint8_t device;    // ordinal as the process sees it, kNoDevice = belongs to none
  Kind kind;
  std::uint8_t flags;              // live: AllocationFlags
  std::uint8_t handle_references;  // VMM physical memory, IPC memory: how often it must still be released
  std::uint16_t mappings;          // VMM physical memory: places where it is mapped
  union {
    Ref label;     // LabelRecord: what was open in its thread; 0 = nothing
    Ref physical;  // instead, of a VMM mapping: the memory mapped there; 0 = not known
  };
};
static_assert(sizeof(AllocationRecord) == 64);
static_assert(offsetof(AllocationRecord, time_ns) == 32);
static_assert(offsetof(AllocationRecord, evidence) == 48);

constexpr std::uint32_t kNoIndex = 0xffffffff;
constexpr std::uint8_t kNoDevice = 0xff;

// A frame is one number: bit 63 set = the address itself is where the frame stands (interrupted by a signal); clear =
// it is a return address, the call lies just before it. Bits 48..62: module index + 1, 0 = in no known module (the
// offset is then the address). Bits 0..47: address minus the module's load bias, i.e. the virtual address inside the
// ELF file.
constexpr std::uint64_t kFrameExact = 1ULL << 63;
constexpr int kFrameModuleShift = 48;
constexpr std::uint64_t kFrameModuleMask = 0x7fff;
constexpr std::uint64_t kFrameOffsetMask = (1ULL << 48) - 1;
// In place of the module index + 1: a Python frame; bits 0..31 are the Ref of its PythonFrameRecord.
constexpr std::uint64_t kPythonModule = kFrameModuleMask;

struct PythonFrameRecord {
  Ref file;                  // string, as the code object has it: most often a path
  Ref function;              // string: qualified name
  std::uint32_t line;        // 0 = in no line
  std::uint32_t first_line;  // of the function
  std::uint64_t identity;    // of all these, the same in another run of the same program
  std::uint64_t reserved;
};
static_assert(sizeof(PythonFrameRecord) == 32);

enum StackFlags : std::uint32_t {
  kStackTruncated = 1,  // deeper than stack_depth_limit
};

// Followed by frame_count u64 frames, innermost first, padded to 16 bytes. Frames of libculprit.so itself are left out.
// The Python frames that an evaluation loop of the interpreter runs come before its native frame. Records that count
// frames of a stack mean the native ones.
struct StackRecord {
  std::uint32_t frame_count;
  std::uint32_t flags;
  // What was ended again is the difference to what is live, or was released with its context.
  std::uint64_t allocations;  // live: calls with this stack that made something; a reader adds those in ThreadCounters
  std::uint64_t bytes_allocated;  // live: likewise
  std::uint64_t reserved;
};
static_assert(sizeof(StackRecord) == 32);

// What one thread (or several after each other) counted, not yet added to the sums in Header and StackRecord.
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
  Ref next_free;   // the writer's: chain of blocks that no thread has
  Ref next_block;  // the writer's: chain of all blocks
  std::uint8_t reserved[36];
  StackCounter stacks[kStackCounters];  // live
};
static_assert(sizeof(ThreadCounters) == 4096);

enum ModuleFlags : std::uint32_t {
  kModuleExecutable = 1,  // the program itself
  kModuleUnloaded = 2,    // live: gone since (dlclose); another module may have taken its addresses
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
  std::uint64_t made;             // when ended: records that name it, ever (its number is used again when none is left)
  std::uint64_t ended_by_itself;  // when ended: of those, gone through this thread
  std::uint64_t ended_by_others;  // live: of those, gone through other threads
};
static_assert(sizeof(ThreadRecord) == 64);
constexpr std::size_t kThreadNameRef = 12;  // where in `name`

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
  Kind kind;          // kContext, kPrimaryContext or kGreenContext
  std::uint16_t api;  // that made it
  std::uint16_t reserved0;
  std::uint32_t thread;  // that made it
  std::uint8_t reserved[16];
};
static_assert(sizeof(ContextRecord) == 64);

enum DeviceFlags : std::uint32_t {
  kDeviceMig = 1,  // a MIG instance: the UUID is the instance's
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
  MemoryReading first;       // live: cuMemGetInfo around the first call that concerned the device
  MemoryReading peak;        // live: the reading with the least free bytes
  MemoryReading exit;        // live: in the exit handler
  std::uint64_t live_bytes;  // live: device memory recorded and not freed; while it runs, short by up to 4 MiB a thread
  std::uint64_t peak_live_bytes;  // live
  std::uint64_t pool_reserved;    // live: default memory pool at exit, cuMemPoolGetAttribute(RESERVED_MEM_CURRENT)
  std::uint64_t pool_used;        // live: the same, USED_MEM_CURRENT
  std::uint8_t reserved[24];
};
static_assert(sizeof(DeviceRecord) == 256);

constexpr std::uint32_t kTimeLineBuckets = 512;

// What was in use on a device during a stretch of time, as DeviceRecord::live_bytes counts it.
struct TimeLineBucket {
  std::uint64_t low;
  std::uint64_t high;
  std::uint64_t last;
};
static_assert(sizeof(TimeLineBucket) == 24);

// Bucket i is about the time from i * bucket_ns on. When the run is longer than all of them, two become one and
// bucket_ns doubles.
struct TimeLineRecord {
  std::uint32_t state;   // live: 0 = not valid; changes with every change of the rest, odd while it goes on
  std::uint32_t device;  // ordinal
  std::uint32_t used;    // live: buckets from 0 on that mean something
  std::uint32_t reserved0;
  std::uint64_t bucket_ns;   // live
  std::uint64_t peak_bytes;  // live: the most that was seen ...
  std::uint64_t peak_ns;     // live: ... and when first
  std::uint64_t reserved1;
  TimeLineBucket buckets[kTimeLineBuckets];  // live
};
static_assert(sizeof(TimeLineRecord) == 48 + 24 * kTimeLineBuckets);

enum class ErrorType : std::uint8_t {
  kNone = 0,
  kDoubleFree = 1,      // the handle was freed before: `free_stack` says where
  kInvalidFree = 2,     // nothing known has this handle
  kMismatchedFree = 3,  // it lives, but this is not the function that frees it, or the pointer is not its start
  kFailedFree = 4,      // the right function, refused by the driver: the allocation is still live
};

// Equal errors (type, api, code, stacks) share one record; `count` counts them. The table has a fixed size.
struct ErrorRecord {
  std::uint32_t state;  // live: 1 = valid
  ErrorType type;
  Kind kind;  // of the allocation concerned; kNone = unknown
  std::uint16_t api;
  std::int32_t code;  // CUresult the driver gave
  Ref stack;          // of the refused call
  Ref allocation_stack;
  Ref free_stack;                   // double free: of the earlier, accepted free
  std::uint64_t handle;             // as passed, in the first of these
  std::uint64_t allocation_handle;  // mismatched: start of the allocation it lies in
  std::uint64_t bytes;              // size of the allocation concerned
  std::uint64_t count;              // live
  std::uint64_t first_ns;
  std::uint64_t last_ns;  // live
  std::uint32_t thread;
  std::uint32_t free_thread;
  std::uint8_t device;
  std::uint8_t reserved[15];
};
static_assert(sizeof(ErrorRecord) == 96);

// Memory that was never freed by the program but went with its context, added up per (stack, teardown stack, device,
// kind).
struct ReleaseRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref stack;            // where the memory was allocated
  Ref teardown_stack;   // the call that ended the context
  std::uint16_t api;
  std::uint16_t teardown_api;
  std::uint64_t count;        // live
  std::uint64_t bytes;        // live
  std::uint64_t first_ns;     // live: earliest allocation
  std::uint64_t last_ns;      // live: latest allocation
  std::uint64_t teardown_ns;  // live: latest teardown
  std::uint32_t thread;       // of the first allocation
  std::uint32_t context;
  std::uint8_t device;
  Kind kind;
  std::uint8_t reserved0[2];
  Ref evidence;  // EvidenceRecord of the memory, as it was when the context ended; 0 = nothing
  Ref label;     // LabelRecord of the memory; 0 = nothing was open
  std::uint8_t reserved1[4];
};
static_assert(sizeof(ReleaseRecord) == 80);

enum ThrowFlags : std::uint8_t {
  kThrowCaught = 1,    // `catch_stack` says where
  kThrowUncaught = 2,  // nobody caught it: the program was terminated
  kThrowForced = 4,    // no exception but a forced unwinding: pthread_exit or pthread_cancel ended the thread
  kThrowRethrown = 8,  // by `throw;` or std::rethrow_exception: `stack` is the first throw where that is known
};

// A throw and where it was caught. Equal ones (type, stacks, flags) share one record; `count` counts them. The table
// has a fixed size.
struct ThrowRecord {
  std::uint32_t state;   // live: 1 = valid
  Ref type;              // string: the mangled name in its type_info; 0 = not known (foreign exception)
  Ref what;              // string: what() of the first of these, cut to 512 bytes; 0 = no std::exception
  Ref stack;             // of the throw
  Ref catch_stack;       // of the catching function, at the start of its handler; 0 = not caught
  std::uint32_t thread;  // of the first of these
  std::uint64_t count;   // live
  std::uint64_t first_ns;
  std::uint64_t last_ns;  // live
  std::uint8_t flags;     // ThrowFlags
  std::uint8_t reserved[15];
};
static_assert(sizeof(ThrowRecord) == 64);

enum FailedCallFlags : std::uint8_t {
  kFailedInjected = 1,  // culprit made it fail: CULPRIT_FAIL
};

// A CUDA call that failed (no free: those are ErrorRecords). Equal ones (api, code, stack) share one record. The table
// has a fixed size.
struct FailedCallRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref stack;
  std::int32_t code;  // CUresult
  std::uint16_t api;
  std::uint8_t flags;  // FailedCallFlags
  std::uint8_t reserved0;
  std::uint64_t count;  // live
  std::uint64_t first_ns;
  std::uint64_t last_ns;  // live
  std::uint64_t bytes;    // asked for, by the first of these; 0 = no allocation
  std::uint32_t thread;   // of the first of these
  std::uint8_t reserved[12];
};
static_assert(sizeof(FailedCallRecord) == 64);

enum EvidenceFlags : std::uint8_t {
  kEvidenceEarlier = 1,  // an older allocation of the stack that the throw struck: it may have been made by an earlier
                         // call of the same function, and handed on
  kEvidenceAmbiguous = 2,    // the catching function has another handler of the same type that may be meant
  kEvidenceEarlierCall = 4,  // like kEvidenceEarlier, for the failed call
};

// What is known of why an allocation was not freed. Equal ones are one record, which never changes; many allocations
// name it.
struct EvidenceRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref error;            // ErrorRecord of the last refused free
  Ref thrown;           // ThrowRecord of the exception that abandoned it
  Ref failed_call;      // FailedCallRecord that its owner saw after it was made
  // The owner, as seen from that event: the innermost activation that both stacks share. As the number of frames of
  // the allocation's stack from the outermost up to and including it.
  std::uint16_t thrown_owner;
  std::uint16_t failed_call_owner;
  std::uint8_t flags;  // EvidenceFlags
  std::uint8_t reserved[11];
};
static_assert(sizeof(EvidenceRecord) == 32);

// A global variable that holds the handle of something live at exit. Written by the search in the exit handler.
struct HolderRecord {
  std::uint32_t state;  // live: that of the allocation when it was found; another generation there: not held any more
  Ref allocation;       // AllocationRecord
  std::uint64_t place;  // like a frame: module index + 1 and offset in the module, where the handle was found
};
static_assert(sizeof(HolderRecord) == 16);

// A stack from which memory was allocated, under a name that holds in another run of the same program. Kept only when
// CULPRIT_FAIL asks for it.
struct SiteRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref stack;
  std::uint64_t site;    // never 0
  std::uint64_t number;  // of its first call, among all allocation calls of the process, from 1
  std::uint64_t calls;   // live
  std::uint16_t api;     // of its first call
  std::uint8_t reserved[14];
};
static_assert(sizeof(SiteRecord) == 48);

enum class MarkKind : std::uint32_t {
  kNone = 0,
  kMark = 1,    // opened and closed by the program (culprit.h)
  kRange = 2,   // an NVTX range; only those in which something was made
  kMoment = 3,  // a moment that the program named
};

// A name that the program gave. Equal ones (kind, name) share one record.
struct MarkRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref name;             // string
  MarkKind kind;
  std::uint32_t thread;  // of the first of these, kNoIndex = not known
  std::uint64_t first_ns;
  std::uint64_t last_ns;  // live
  std::uint64_t count;    // live: how often it was opened; of ranges, how often something was made in it first
  std::uint64_t reserved;
};
static_assert(sizeof(MarkRecord) == 48);

// What was open in a thread when it allocated: the innermost mark and the innermost NVTX range.
struct LabelRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref mark;             // MarkRecord; 0 = none
  Ref range;            // likewise
  std::uint32_t reserved;
};
static_assert(sizeof(LabelRecord) == 16);

enum SpanFlags : std::uint8_t {
  kSpanReadAtBegin = 1,  // the memory in use was read when it began, not at the first allocation in it
};

// A stretch in which allocations were recorded, from the first one in it on. Kept only where recording did not go on
// from the first CUDA call to the end.
struct SpanRecord {
  std::uint32_t state;  // live: 1 = valid
  std::uint8_t device;  // whose memory was read when it began, kNoDevice = none's
  std::uint8_t flags;   // SpanFlags
  std::uint8_t reserved[2];
  std::uint64_t begin_ns;
  std::uint64_t end_ns;      // live: 0 = it goes on
  std::uint64_t used_bytes;  // in use when it began, by whomever
  std::uint64_t total_bytes;
  std::uint64_t reserved1;
};
static_assert(sizeof(SpanRecord) == 48);

enum class PictureReason : std::uint8_t {
  kNone = 0,
  kPeak = 1,         // use was higher than ever before
  kOutOfMemory = 2,  // an allocation failed with CUDA_ERROR_OUT_OF_MEMORY
};

// One stack's part of a picture.
struct PictureShare {
  Ref stack;
  std::uint16_t api;  // of its first live allocation, like `kind`
  Kind kind;
  std::uint8_t reserved;
  std::uint64_t bytes;  // 0 = unused
  std::uint64_t count;
};
static_assert(sizeof(PictureShare) == 24);

constexpr std::uint32_t kPictureShares = 24;

// What was live on a device at one moment: the stacks with the most bytes, and the sum of the others. Made without
// stopping other threads, so that what they did meanwhile may be in it or not. Records are used again.
struct PictureRecord {
  std::uint32_t state;  // live: 0 = not valid, else counts how often the record was used
  PictureReason reason;
  std::uint8_t device;
  std::uint16_t api;     // out of memory: the call that failed
  Ref stack;             // likewise
  std::uint32_t thread;  // that made it
  std::uint64_t time_ns;
  std::uint64_t asked_bytes;  // out of memory
  std::uint64_t live_bytes;
  std::uint64_t live_count;
  std::uint64_t free_bytes;  // cuMemGetInfo at that moment; total 0 = not known
  std::uint64_t total_bytes;
  std::uint64_t other_bytes;  // of live_bytes, of stacks that are not in the list
  std::uint64_t other_count;
  std::uint32_t other_stacks;  // how many; too low when there were more than could be told apart
  std::uint32_t times;         // live; out of memory: calls with this stack that failed so far
  std::uint8_t reserved[8];
  PictureShare shares[kPictureShares];  // most bytes first
};
static_assert(sizeof(PictureRecord) == 672);

struct ApiRecord {
  char name[64];  // the driver symbol, e.g. "cuMemAlloc_v2", NUL-terminated
};
static_assert(sizeof(ApiRecord) == 64);

}  // namespace culprit::format
