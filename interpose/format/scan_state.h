// The state of a search for lost memory in a frozen copy of a process that runs: the variable culprit_scan of
// libculprit.so. `culprit scan PID` reads it from outside, in the process and in its copy.
#pragma once

#include <cstdint>

#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"

namespace culprit::format {

enum class ScanPhase : std::uint32_t {
  kNone = 0,
  kCopied = 1,    // `copy` is the process number of the copy
  kKnown = 2,     // there is no copy: `reason` says why nothing can be known, or nothing is live (kDone)
  kTooLarge = 3,  // a copy of `private_bytes` would stop the process for too long
  kFailed = 4,    // `error` is an errno
  // In the copy:
  kSearching = 5,
  kReady = 6,  // `reason` is the outcome
};

// Memory to which no pointer is left. `place`: kNoPointerLeft or kOnlyLostPointerLeft.
struct LostAllocation {
  Ref allocation;
  std::uint32_t state;  // of the record, when the search began
  std::uint64_t place;
};

struct ScanState {
  ScanPhase phase;  // stored last
  std::int32_t error;
  LostSearch reason;
  std::int32_t copy;            // as the process sees it; 0: there is none, or it was waited for
  std::uint64_t most_us;        // written by the command before it asks: the copy may stop the process for so long
  std::uint64_t private_bytes;  // of the process
  std::uint64_t frozen_ns;      // CLOCK_MONOTONIC: what is lost is so since then
  std::uint64_t live_count;     // live allocations that were looked for
  std::uint64_t live_bytes;
  std::uint64_t search_ns, search_bytes;  // in the copy
  std::uint64_t lost, lost_count;         // in the copy: LostAllocation[] ...
  std::uint64_t last, last_count;         // ... and LastHolderRecord[]
};

// A stopped thread of the program. Its registers as ptrace names them, of those that unwinding needs.
struct StoppedThread {
  std::uint64_t thread;  // its number, as the process sees it
  std::uint64_t instruction_pointer, stack_pointer, frame_pointer;
  std::uint64_t preserved[5];    // rbx, r12 to r15
  std::uint64_t register_words;  // of all its registers, see below; 0: they are not there
};

// The words that the command writes behind the request, at AttachRequest::places: first the number of ranges, then
// their first and last addresses: parts of stacks that are not in use, and the memory of the call itself, these words
// included. Then the number of threads, and a StoppedThread for each. Then all registers of the threads, one after the
// other, which are looked at where they lie.
}  // namespace culprit::format
