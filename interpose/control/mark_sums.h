// The live memory by stack at moments that the program chose (culprit_mark_with_bytes). The dump has only the present
// live allocations, so those of such a moment are added up in the calling thread, and the sums are kept.
//
// Cost: one pass over all records of allocations, in the mapped dump; no lock of theirs is taken, so that other threads
// allocate and free meanwhile. tests/bench/FIGURES.md has the times.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/control/mark_table.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// All zeros = nothing kept.
class MarkSums {
 public:
  // Keeps the sums at `mark`, which was noted just now; the oldest of more than format::kKeptMarkSums are given up. On
  // the tracker's own stack only, within a VisitInTracker. Waits up to a second for a breakdown that another thread
  // takes. Returns false, with nothing kept and the older sums as they were, when it waits in vain, or there is no
  // memory or no room in the dump. Thread-safe.
  CULPRIT_COLD bool take(Process& process, const NotedMark& mark);

  // Keeps sums of 0 bytes, at a mark from before the first CUDA call. Not while other threads use this.
  CULPRIT_COLD bool keep_nothing(Process& process, const NotedMark& mark);

 private:
  static constexpr std::uint32_t kSlots = format::kKeptMarkSums + 1;  // one is written while the others are kept
  struct Sums;

  bool keep(Process& process, const NotedMark& mark, const Sums& sums, std::uint64_t took_ns);
  format::MarkSumsRecord* block_after(format::MarkSumsRecord* block, std::uint32_t slot, DumpWriter& dump);

  std::uint32_t taken_;        // sums so far
  format::Ref first_[kSlots];  // the first block of each slot; 0 = none yet
};

}  // namespace culprit
