// Records of why something was not freed: refused calls, exceptions, destroyed contexts, globals that hold the handle.
// Part of dump_format.h.
#pragma once

#include "interpose/format/dump_records.h"

namespace culprit::format {

enum class ErrorType : std::uint8_t {
  kNone = 0,
  kDoubleFree = 1,      // the handle was freed before: `free_stack` says where
  kInvalidFree = 2,     // no recorded allocation has this handle
  kMismatchedFree = 3,  // live, but freed by the wrong function, or not by its start address
  kFailedFree = 4,      // the driver refused the right function: the allocation is still live
};

// Equal errors (type, api, code, stacks) share one record and are counted in `count`. The table has a fixed size.
struct ErrorRecord {
  std::uint32_t state;  // live: 1 = valid
  ErrorType type;
  Kind kind;  // of the allocation; kNone = unknown
  std::uint16_t api;
  std::int32_t code;  // CUresult the driver gave
  Ref stack;          // of the refused call
  Ref allocation_stack;
  Ref free_stack;                   // double free: of the earlier, accepted free
  std::uint64_t handle;             // as passed to the first of these calls
  std::uint64_t allocation_handle;  // mismatched: start of the allocation it lies in
  std::uint64_t bytes;              // size of the allocation
  std::uint64_t count;              // live
  std::uint64_t first_ns;
  std::uint64_t last_ns;  // live
  std::uint32_t thread;
  std::uint32_t free_thread;
  std::uint8_t device;
  std::uint8_t reserved[15];
};
static_assert(sizeof(ErrorRecord) == 96);

// Memory that the program did not free and that was released with its context, summed per (stack, teardown stack,
// device, kind, name); and the regions in such memory, whose bytes are those of the memory.
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
  Ref evidence;  // EvidenceRecord of the memory when the context ended; 0 = none
  Ref label;     // LabelRecord of the memory; 0 = no mark or range was open
  Ref name;      // MarkRecord of kind kRegionName: the program's name of the memory; 0 = none
};
static_assert(sizeof(ReleaseRecord) == 80);

enum ThrowFlags : std::uint8_t {
  kThrowCaught = 1,    // `catch_stack` says where
  kThrowUncaught = 2,  // uncaught: the program was terminated
  kThrowForced = 4,    // a forced unwinding: pthread_exit or pthread_cancel ended the thread
  kThrowRethrown = 8,  // by `throw;` or std::rethrow_exception: `stack` is the first throw if known
};

// A throw and its handler. Equal throws (type, stacks, flags) share one record and are counted in `count`. The table
// has a fixed size.
struct ThrowRecord {
  std::uint32_t state;   // live: 1 = valid
  Ref type;              // string: the mangled name in its type_info; 0 = not known (foreign exception)
  Ref what;              // string: what() of the first of these, cut to 512 bytes; 0 = no std::exception
  Ref stack;             // of the throw
  Ref catch_stack;       // of the catching function at its handler's start; 0 = not caught
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

// A CUDA call that failed; failed frees are ErrorRecords instead. Equal calls (api, code, stack) share one record. The
// table has a fixed size.
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
  std::uint64_t bytes;    // requested by the first of these; 0 = no allocation
  std::uint32_t thread;   // of the first of these
  std::uint8_t reserved[12];
};
static_assert(sizeof(FailedCallRecord) == 64);

enum EvidenceFlags : std::uint8_t {
  kEvidenceEarlier = 1,      // an older allocation of its path, perhaps made by an earlier call of the function
  kEvidenceAmbiguous = 2,    // another handler of the same type in the catching function may be the right one
  kEvidenceEarlierCall = 4,  // like kEvidenceEarlier, for the failed call
  kEvidenceCoroutine = 8,    // its address was in the frame of a coroutine that the exception ended
};

// Evidence of why an allocation was not freed. Records are immutable; equal evidence is stored once and shared by many
// allocations.
struct EvidenceRecord {
  std::uint32_t state;  // live: 1 = valid
  Ref error;            // ErrorRecord of the last refused free
  Ref thrown;           // ThrowRecord of the exception that abandoned it
  Ref failed_call;      // FailedCallRecord of a call that its owner saw fail later
  // The owner as seen from that event: the innermost activation that both stacks share. Given as the number of frames
  // of the allocation's stack from the outermost one up to and including the owner's.
  std::uint16_t thrown_owner;
  std::uint16_t failed_call_owner;
  std::uint8_t flags;  // EvidenceFlags
  std::uint8_t reserved[11];
};
static_assert(sizeof(EvidenceRecord) == 32);

// A global or thread-local variable that holds the handle of a live allocation at exit, or that none is left. Written
// by the search in the exit handler.
struct HolderRecord {
  std::uint32_t state;  // live: the allocation's state when found; stale if the allocation's generation differs now
  Ref allocation;       // AllocationRecord
  std::uint64_t place;  // where it was found, coded like a frame: module index + 1 and offset in the module; and flags
};
// Flags of HolderRecord::place.
constexpr std::uint64_t kHolderMiddle = 1ULL << 63;       // a pointer into the middle of the allocation
constexpr std::uint64_t kHolderThreadLocal = 1ULL << 47;  // the offset is in the module's thread-local segment, of the
                                                          // main thread's
// HolderRecord::place of memory to which no pointer was left, written only when the search for one was complete: a
// place in no module, which older readers pass over.
constexpr std::uint64_t kNoPointerLeft = 1;
constexpr std::uint64_t kOnlyLostPointerLeft = 2;  // only memory that is lost too refers to it
static_assert(sizeof(HolderRecord) == 16);

// Where the program has the pointer to the only allocation of a stack that is not lost. Written only when the search
// for lost memory was complete. One allocation may have several.
struct LastHolderRecord {
  std::uint32_t state;  // as HolderRecord has it
  Ref allocation;       // AllocationRecord
  std::uint64_t place;  // a variable of a function that runs: the function's frame. Else of a module's data. Coded like
                        // a frame; in the answer of a scan an address
  std::int64_t offset;  // from that frame's CFA; 0: no variable of a function
  std::uint32_t depth;  // of that frame in the allocation's stack, too: among native frames, the outermost is 1
  std::uint32_t reserved;
};
static_assert(sizeof(LastHolderRecord) == 32);

enum HeapStepFlags : std::uint8_t {
  // The path passes memory that the driver refers to, and that may be its own; or memory that is not malloc's.
  kHeapStepUncertain = 1,
  kHeapStepText = 2,    // the record has a text; before, it had a ninth word there
  kHeapStepWindow = 4,  // not malloc's: where the object ends is not known
};

constexpr std::uint64_t kHeadWords = 8;

// A chunk of the heap on the way from a module's data to a handle.
struct HeapStepRecord {
  std::uint32_t state;   // live: 1 = valid
  Ref parent;            // HeapStepRecord of the chunk that points to this one; 0 = a module's data
  std::uint64_t at;      // of that pointer: its offset in the parent, or its place, coded like that of a holder
  std::uint64_t behind;  // the word behind that pointer: of a std::vector the end of its elements
  std::uint64_t begin;   // of the chunk, an address
  std::uint64_t bytes;   // of the chunk
  std::uint32_t times;   // chunks of this size in a row (nodes of a list or a tree), of which this is the last
  std::uint32_t inner;   // where in the chunk that pointer points
  std::uint8_t flags;    // HeapStepFlags
  std::uint8_t head_words;
  // Of the word 16 bytes behind that pointer, or else of the one in front of it, if it is an address in the module of
  // the data: its offset there, the lowest byte first; else 0. In a std::function these tell the type of its functor.
  std::uint8_t code[6];
  std::uint64_t head[kHeadWords];  // its first words, `head_words` of them: a node of a map has its key there
  Ref text;                        // kHeapStepText: what the word `text_word` points to, by the length beside it
  std::uint32_t text_word;
};
static_assert(sizeof(HeapStepRecord) == 128);

// In HeapHolderRecord::word: the pointer is one into the middle of the allocation.
constexpr std::uint32_t kHeapMiddle = 1U << 31;

// A chunk of the heap that holds the handle of a live allocation at exit, and to which the data of a module leads.
struct HeapHolderRecord {
  std::uint32_t state;  // as HolderRecord has it
  Ref allocation;       // AllocationRecord
  Ref step;             // HeapStepRecord
  std::uint32_t word;   // offset of the handle in the chunk, in words of 8 bytes; kHeapMiddle
};
static_assert(sizeof(HeapHolderRecord) == 16);

// A stack that allocated memory, with a name that is the same in other runs of the program. Kept only when CULPRIT_FAIL
// asks for it.
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

}  // namespace culprit::format
