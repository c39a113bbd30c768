// The names of marks and moments in the dump, and the labels of allocations (marks.h).
#pragma once

#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/system/hash_index.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

// A mark as it was just noted. `record` 0: there was no room for it.
struct NotedMark {
  format::Ref record = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t number = 0;  // how often it was opened or set so far
};

// A label is a pair of names. Thread-safe. All zeros = empty.
class MarkTable {
 public:
  // Notes the mark with this name and kind (format::MarkKind), seen now. `counts`: it was opened, or its moment is now.
  // Its record is 0 when there is no room, or there are too many names.
  NotedMark note(const char* name, std::uint32_t length, format::MarkKind kind, std::uint32_t thread,
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

  format::Ref find_or_make(const char* name, std::uint32_t length, format::MarkKind kind, std::uint32_t thread,
                           std::uint64_t now_ns, bool counts, DumpWriter& dump);
  void keep_time(const NotedMark& mark, DumpWriter& dump);

  SpinLock lock_;
  format::Ref times_;         // a ring of MarkTimeRecords
  std::uint64_t kept_times_;  // in it so far, with those that were replaced
  HashIndex names_;
  HashIndex labels_;
};

}  // namespace culprit
