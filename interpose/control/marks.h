// Marks: names that a program (culprit.h, NVTX) gives to intervals of a thread's work, and to moments. An allocation
// carries the innermost mark and the innermost NVTX range that are open in its thread.
//
// Each thread has a stack of open marks and ranges outside the dump: a program may open millions of ranges with
// different names, also before its first CUDA call. Only NVTX ranges with an allocation are written to the dump; until
// then thread_state.marks.label is kUnresolvedLabel, afterwards it is the label of the open marks and ranges.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/process/thread_state.h"

namespace culprit {

struct Process;

// The open marks and ranges of one thread, in private memory.
struct OpenMarks {
  static constexpr int kLevels = 32;  // deeper levels are counted, without names
  static constexpr int kNameBytes = 112;
  struct Level {
    format::Ref record;  // in the dump of `generation`, 0 = not yet written
    std::uint32_t length;
    const void* domain;  // the NVTX domain, else nullptr
    char name[kNameBytes];
  };
  struct Stack {
    std::uint32_t depth;
    Level levels[kLevels];
  };
  std::uint32_t generation;  // of the Process whose dump has the records
  Stack marks;
  Stack ranges;
};

// Opens and closes a mark, or an NVTX range of `domain`, in the calling thread. Names are cut to kNameBytes - 1 bytes.
// Each returns the number of marks or ranges (of this domain) that were open before the call; close returns -1 when
// there was none. These calls never start a dump.
int open_mark(const char* name);
int close_mark();
int open_range(const char* name, std::uint32_t length, const void* domain);
int close_range(const void* domain);

// Records a moment, for `culprit report --since-mark`. `with_sums`: and the live memory of that moment by stack, for
// `culprit diff --from`. Within a VisitInTracker then. Returns false when the sums could not be kept; that is counted.
bool note_moment(const char* name, bool with_sums);

// Called when the dump has just begun: writes the marks from before the first CUDA call.
void begin_marks(Process& process);

// Called when the calling thread ends.
void forget_open_marks();

// The label of the calling thread's open marks and ranges, when thread_state.marks.label is kUnresolvedLabel.
CULPRIT_COLD format::Ref resolve_label(Process& process);

}  // namespace culprit
