// Marks: names that a program (culprit.h, NVTX) gives to intervals of a thread's work, and to moments. An allocation
// carries the innermost mark and the innermost NVTX range that are open in its thread.
//
// Each thread has a stack of open marks and ranges outside the dump: a program may open millions of ranges with
// different names, also before its first CUDA call. Only NVTX ranges with an allocation are written to the dump; until
// then thread_state.marks.label is kUnresolvedLabel, afterwards it is the label of the open marks and ranges.
#pragma once

#include <cstdint>

#include "interpose/base/hash_index.h"
#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

struct Process;

// The names in the dump, and the labels (pairs of names) of allocations. Thread-safe.
class MarkTable {
 public:
  // The record of the mark with this name and kind (format::MarkKind), seen now. `counts`: it was opened, or its moment
  // is now. Returns 0 when there is no room, or there are too many names.
  format::Ref note(const char* name, std::uint32_t length, format::MarkKind kind, std::uint32_t thread,
                   std::uint64_t now_ns, bool counts, DumpWriter& dump);

  // The label of this pair. 0 when both are 0, or when there is no room.
  format::Ref label(format::Ref mark, format::Ref range, DumpWriter& dump);

  // Gives the index's memory back; empty afterwards. Not while other threads use this.
  void free_memory() {
    names_.free_memory();
    labels_.free_memory();
  }

 private:
  static constexpr std::uint32_t kMostNames = 65536;
  static constexpr std::uint32_t kMostLabels = 262144;
  SpinLock lock_;
  HashIndex names_;
  HashIndex labels_;
};

constexpr format::Ref kUnresolvedLabel = 0xffffffff;

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

// The part of ThreadState that belongs to this file.
struct ThreadMarks {
  format::Ref label;  // of the open marks and ranges; kUnresolvedLabel: not known yet
  OpenMarks* open;    // nullptr = none
};

// Opens and closes a mark, or an NVTX range of `domain`, in the calling thread. Names are cut to kNameBytes - 1 bytes.
// Each returns the number of marks or ranges (of this domain) that were open before the call; close returns -1 when
// there was none. These calls never start a dump.
int open_mark(const char* name);
int close_mark();
int open_range(const char* name, std::uint32_t length, const void* domain);
int close_range(const void* domain);

// Records a moment, for `culprit report --since-mark`.
void note_moment(const char* name);

// Called when the dump has just begun: writes the marks from before the first CUDA call.
void begin_marks(Process& process);

// Called when the calling thread registers with a process, and when it ends.
format::Ref label_at_start();
void forget_open_marks();

// The label of the calling thread's open marks and ranges, when thread_state.marks.label is kUnresolvedLabel.
CULPRIT_COLD format::Ref resolve_label(Process& process);

}  // namespace culprit
