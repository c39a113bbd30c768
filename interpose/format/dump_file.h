// The dump file: its header and its chunks. Part of dump_format.h.
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
  kRunning = 0,   // also in the dump of a killed process
  kExiting = 1,   // exit handlers are running
  kExited = 2,    // exit(), return from main, quick_exit() or _exit()
  kDetached = 3,  // by `culprit detach`; later calls of the process were not seen
};

enum class StopReason : std::uint32_t {
  kNone = 0,
  kNoSpace = 1,        // posix_fallocate failed: stop_errno says why
  kFileSizeLimit = 2,  // RLIMIT_FSIZE; growing further would have killed the target with SIGXFSZ
  kTooLarge = 3,       // the address range reserved for the dump is used up
  kFileReplaced = 4,   // our descriptor was closed by the target and the file could not be opened again
  kNoMemory = 5,       // the private index could not grow (mmap failed): stop_errno says why
  kNoDescriptor = 6,   // no descriptor was free to open the dump with when it had to grow
  kNoAddresses = 7,    // our share of RLIMIT_AS is used up, or the addresses after the dump are taken
  kTruncated = 8,      // the file was truncated while the program ran, or its file system failed
};

// The search for globals that hold live handles, at exit.
enum class HolderSearch : std::uint32_t {
  kNotRun = 0,   // the process did not end by an exit handler
  kDone = 1,     // or everything was freed
  kOff = 2,      // CULPRIT_SCAN=off
  kStopped = 3,  // given up: no memory, or timeout
};

// The search through the heap for what those globals lead to, at exit.
enum class HeapSearch : std::uint32_t {
  kNotRun = 0,   // the search for globals did not end, an interpreter of Python is there, or an older library
  kDone = 1,     // or no handle was left to look for
  kStopped = 2,  // given up: no memory, or its budget of time or bytes was used up
};

// The search at exit for memory to which no pointer is left, or why there was none.
enum class LostSearch : std::uint32_t {
  kNotRun = 0,              // the process did not end by an exit handler, or an older library
  kDone = 1,                // or everything was freed
  kGivenUp = 3,             // no memory, or its budget of time or bytes was used up
  kThreads = 4,             // other threads of the program were running
  kPython = 5,              // an interpreter of Python is there
  kAllocator = 6,           // the heap is not glibc's, or its chunks could not be followed
  kNotAllRecorded = 7,      // calls before the recording, beside it, or during a part of it without recording
  kDeviceCode = 8,          // device code ran, or its variables were looked up: they may have pointers
  kDriverObjects = 9,       // graphs, textures, arrays, VMM memory and the like: the driver keeps pointers for them
  kShared = 10,             // memory was given to other processes, or comes from them
  kDeviceNotRead = 11,      // device memory could not be read: work that goes on, an error, or its budget
  kUnreadable = 12,         // memory, threads or descriptors of the process could not be read
  kKernelHolds = 13,        // the kernel may keep pointers: kernel_words.h
  kDestructors = 14,        // destructors may have run before the search
  kThreadsNotStopped = 15,  // other threads were running, and `culprit run` could not stop them
};
constexpr LostSearch kLastLostSearch = LostSearch::kThreadsNotStopped;

// Whether stacks have Python frames.
enum class PythonState : std::uint32_t {
  kNoPython = 0,
  kNotChecked = 1,      // an interpreter was found; no Python code has called CUDA yet
  kRead = 2,            // yes
  kUnknownVersion = 3,  // no: the layout of this version is not known
  kDiffers = 4,         // no: the interpreter's layout differs from its version's
  kFreeThreaded = 5,    // no: the interpreter has no GIL
};

// Whether the code that takes views from inside an interpreter is there.
enum class PythonViewState : std::uint32_t {
  kNone = 0,    // not asked for: no interpreter was seen, or CULPRIT_PYTHON=0
  kAsked = 1,   // the interpreter's main thread has run no Python code since
  kLoaded = 2,  // it is
};

// Whether new allocations are recorded. The frees of recorded ones are always recorded.
enum class RecordingState : std::uint32_t { kOn = 0, kOff = 1 };

// Signal values that `culprit start` and `culprit stop` send (sigqueue).
constexpr int kSwitchOn = 0x43554c01;
constexpr int kSwitchOff = 0x43554c00;

// How libculprit.so came into the process.
enum class Attached : std::uint32_t {
  kNo = 0,  // it was loaded at the program's start
  kRedirect = 1,
  kCupti = 2,
};

// How a library bypasses the hooks.
enum class UnseenHow : std::uint8_t {
  kDirect = 'd',     // it finds the driver's functions before ours: dlopen(RTLD_DEEPBIND), or its own symbol lookup
  kNamespace = 'n',  // it has its own copy of the driver: dlmopen(LM_ID_NEWLM)
  kDriver = 'c',     // it is a driver, opened while as many others were as the hooks can lead to
};

// Whether CUPTI's callbacks were compared with what was recorded (`culprit run --audit`).
enum class AuditState : std::uint32_t {
  kNotAsked = 0,
  kNotBegun = 1,    // asked for; no call of cuInit was seen
  kOn = 2,          // from cuInit on
  kEnded = 3,       // at audit_end_ns: the program's own profiler took CUPTI
  kNoCupti = 4,     // no libcupti was found
  kTaken = 5,       // another tool held CUPTI
  kFailed = 6,      // CUPTI refused: audit_error
  kForkParent = 7,  // the process was forked after its parent's cuInit
};

enum AttachFlags : std::uint32_t {
  kAttachSeesThrows = 1,  // exceptions are followed as in a preloaded process
  kAttachUnfinished = 2,  // live: the attach has not come to AttachStep::kEnd: nothing is recorded
};

constexpr std::uint64_t kUsedHeaderBytes = 632;  // the offset of Header::reserved1

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

  // The course of the recording.
  ProcessState process_state;         // live
  std::int32_t exit_status;           // valid when kExited
  std::uint64_t end_time_ns;          // live: since time 0; valid when kExiting or kExited
  StopReason stop_reason;             // live: why recording stopped; kNone while it goes on
  std::int32_t stop_errno;            // live
  std::uint64_t stop_time_ns;         // live
  std::uint64_t dropped_allocations;  // live: allocations that happened and were not recorded
  std::uint64_t dropped_stacks;       // live: allocations recorded without their stack
  std::uint64_t dropped_others;       // live: errors, contexts, threads, releases for which there was no room
  std::uint64_t allocations;        // live: successful calls that made something; a reader adds those in ThreadCounters
  std::uint64_t frees;              // live: successful calls that ended something; likewise
  std::uint64_t late_frees;         // live: frees refused because the driver was shutting down
  std::uint64_t unknown_frees;      // live: successful frees of something never seen (made before recording began)
  std::uint64_t hook_calls;         // 1: hooks were called; 0: all calls bypassed them (unseen_users)
  std::int32_t driver_version;      // cuDriverGetVersion, 0 = unknown
  std::uint32_t stack_depth_limit;  // CULPRIT_DEPTH
  std::uint64_t stacks_verified;    // live: with CULPRIT_VERIFY_STACKS=1, cached stacks that were compared ...
  std::uint64_t stack_mismatches;   // live: ... and were wrong
  HolderSearch holder_search;       // live
  HeapSearch heap_search;           // live
  std::uint64_t holder_search_ns;   // live: how long it took
  std::uint64_t holder_search_bytes;  // live: how much module data and heap was read
  std::uint64_t throws;               // live: exceptions seen
  std::uint64_t contexts_verified;    // live: with CULPRIT_VERIFY_STACKS=1, cached current contexts that were compared
                                      // with the driver's ...
  std::uint64_t context_mismatches;   // live: ... and were wrong
  std::uint64_t injected_failures;    // live: calls that CULPRIT_FAIL made fail
  Ref exit_stack;  // stack: of the call of exit(), also by main's caller; kept only when CULPRIT_FAIL is set
  std::uint32_t python_version;    // PY_VERSION_HEX of the interpreter in the process, 0 = none, or older than 3.9
  PythonState python_state;        // live
  RecordingState recording_state;  // live
  std::uint64_t process_age_ns;    // how long the process had run at time 0; 0 = not known
  std::uint64_t last_switch_ns;    // live: 0 = never switched
  std::uint64_t snapshot_ns;       // 0: the dump itself; else a snapshot, taken at this time
  std::uint64_t dropped_marks;     // live: marks and ranges with allocations for which there was no room
  Attached attached;
  std::uint32_t attach_flags;      // live: AttachFlags
  std::uint32_t rank;              // in its parallel job, plus 1; 0 = no job
  std::uint32_t job_size;          // ranks of the job, 0 = not known
  std::uint64_t unknown_refusals;  // live: refused frees of unknown handles after a time in which recording was off
  // Events that were not recorded, besides `dropped_*`. Their types are not known.
  std::uint64_t handler_calls;  // live: CUDA calls of a signal handler that interrupted the tracker itself
  std::uint64_t left_hooks;     // live: calls left by siglongjmp or cancellation before the tracker had finished
  std::uint64_t lock_timeouts;  // live: events given up because a lock of the tracker was not free in time
  // At exit: libraries that bypass the hooks. A string: for each an UnseenHow as a byte, its path, a NUL.
  Ref unseen_users;
  std::uint32_t unseen_user_count;  // the string has the first of them
  std::uint64_t size_limit;         // CULPRIT_MAX_DUMP: file_bytes stays below; 0 = as large as a dump can be
  std::uint64_t merged_stacks;      // live: stacks shortened to their innermost frames because there was no room
  std::uint64_t reused_stacks;      // live: unreferenced stacks whose room was reused ...
  std::uint64_t reused_calls;       // live: ... and the allocations made with those stacks
  std::uint32_t limited_types;      // live: bit N % 32: a chunk of ChunkType N found no room below the limit
  std::uint32_t stack_sweeps;       // live: collections of unreferenced stacks; see StackRecord::born
  std::uint64_t objects;            // live: those of `allocations` that made no memory (contexts, streams, events, ...)
  std::uint64_t object_frees;       // live: those of `frees` that ended no memory; a reader adds both of ThreadCounters
  std::uint64_t view_failures;      // live: views from inside Python that could not be taken
  PythonViewState view_state;       // live
  AuditState audit_state;           // live
  std::int32_t audit_error;         // CUPTI's code
  std::uint32_t reserved3;
  std::uint64_t audit_end_ns;             // live: with AuditState::kEnded
  std::uint64_t attach_unsearched_bytes;  // of memory that may hold addresses of the driver
  char run_id[40];                        // of the `culprit run` that started the process: CULPRIT_RUN_ID; empty: none
  std::uint64_t dropped_mark_sums;        // live: marks whose sums could not be kept (dump_marks.h)
  LostSearch lost_search;                 // live
  std::uint32_t reserved4;
  std::uint64_t lost_search_ns;     // live: how long it took
  std::uint64_t lost_search_bytes;  // live: how much memory of the process and its devices was read
  std::uint8_t reserved1[kHeaderBytes - kUsedHeaderBytes];
};
static_assert(sizeof(Header) == kHeaderBytes);
static_assert(offsetof(Header, reserved1) == kUsedHeaderBytes);
static_assert(offsetof(Header, file_bytes) == 24);
static_assert(offsetof(Header, boot_id) == 64);
static_assert(offsetof(Header, process_state) == 184);
static_assert(offsetof(Header, dropped_allocations) == 216);

enum class ChunkType : std::uint32_t {
#define CHUNK(number, enumerator, ...) enumerator = (number),
#include "interpose/format/chunks.def"
};

constexpr std::uint32_t kChunkMagic = 0x4b4e4843;  // "CHNK"

enum ChunkFlags : std::uint32_t {
  kChunkMayBeSkipped = 1,  // a reader that does not know the type may leave the chunk out: the verdict and all other
                           // parts of the report stay true without it.
};

struct ChunkHeader {
  std::uint32_t magic;  // live: stored last, with release order
  ChunkType type;
  std::uint64_t bytes;         // whole chunk with this header, a multiple of kChunkAlignment
  std::uint64_t used;          // live: bytes of payload used. For record arrays: records ever handed out * record_bytes
  std::uint32_t record_bytes;  // 0 for packed chunks
  std::uint32_t first_index;   // index of the first record (modules, threads, contexts, devices, apis), else 0
  std::uint32_t flags;         // ChunkFlags
  std::uint8_t reserved[28];
};
static_assert(sizeof(ChunkHeader) == 64);

}  // namespace culprit::format
