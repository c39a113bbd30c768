// Marks: names that a program (culprit.h, NVTX) gives to stretches of what a thread does, and to moments. An allocation
// carries the innermost mark and the innermost NVTX range that are open in its thread.
//
// What is open stands on a stack of the thread's own, outside of the dump: a program may open ranges by the million,
// each with another name, and may do so before its first CUDA call. Of the NVTX ranges only those go into the dump in
// which something is allocated; thread_state.label is kUnresolvedLabel until then, and the label of what is open
// afterwards.
#pragma once

#include <cstdint>

#include "interpose/base/hash_index.h"
#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

struct Process;

// Names in the dump, and the pairs of them that allocations carry. All zeros = empty; lives in memory that the kernel
// wipes in a fork child. Thread-safe.
class MarkTable {
 public:
  // The mark with this name; seen now, in this way (format::MarkKind). `counts`: it was opened, or its moment is now. 0
  // when there is no room, or too many names.
  format::Ref note(const char* name, std::uint32_t length, format::MarkKind kind, std::uint32_t thread,
                   std::uint64_t now_ns, bool counts, DumpWriter& dump);

  // The label of this pair. 0 when both are 0 or there is no room.
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

// What is open in one thread. In memory of its own.
struct OpenMarks {
  static constexpr int kLevels = 32;  // deeper ones are counted, and have no name
  static constexpr int kNameBytes = 112;
  struct Level {
    format::Ref record;  // in the dump of `generation`, 0 = not there yet
    std::uint32_t length;
    const void* domain;  // of NVTX, else nullptr
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
// Each returns how many were open before (of this domain), close() -1 when there was none. Nothing here starts a dump.
int open_mark(const char* name);
int close_mark();
int open_range(const char* name, std::uint32_t length, const void* domain);
int close_range(const void* domain);

// A moment, for `culprit report --since-mark`.
void note_moment(const char* name);

// Marks of before the first CUDA call: the dump has just begun.
void begin_marks(Process& process);

// The calling thread registers with a process, or ends.
format::Ref label_at_start();
void forget_open_marks();

// The label of what is open in the calling thread, thread_state.label being kUnresolvedLabel.
CULPRIT_COLD format::Ref resolve_label(Process& process);

}  // namespace culprit
