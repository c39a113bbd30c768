// What a dump knows of why something was not freed: refused calls, exceptions, contexts that ended, globals that hold
// it. Part of dump_format.h.
#pragma once

#include "interpose/format/dump_records.h"

namespace culprit::format {

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

}  // namespace culprit::format
