// The names of marks and moments in the dump, and the labels of allocations (marks.h).
#pragma once

#include <cstdint>

#include "interpose/base/hash_index.h"
#include "interpose/base/spin_lock.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

// A label is a pair of names. Thread-safe. All zeros = empty.
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

}  // namespace culprit
