// Memory that this process handed to others, and that others handed to it.
#pragma once

#include <cstdint>

#include "interpose/dump/dump_writer.h"

namespace culprit {

// Every function is thread-safe. A search is a walk over 16 KiB: exports, imports and their ends are rare.
class SharingTable {
 public:
  // Adds `sharing` (`state` and `count` are ignored); a call that is equal to a known one (same allocation, role, type
  // and key) is counted. When the table is full, the export that was freed first is given up. Returns false when there
  // is no room.
  bool add(const format::SharingRecord& sharing, DumpWriter& dump);

  // Counts a further export with this key, unless its allocation was freed. Returns false when there is none.
  bool count_again(std::uint64_t key, format::SharingRole role, DumpWriter& dump);

  // An allocation was freed, or a mapping was closed.
  void end(format::Ref allocation, std::uint64_t now_ns, format::Ref stack, DumpWriter& dump);

  // So many bytes of imported memory were mapped by one call.
  void note_mapped(format::Ref allocation, std::uint64_t bytes, DumpWriter& dump);

  static constexpr int kCapacity = 4096;

 private:
  format::SharingRecord* slot_locked(DumpWriter& dump, int* index);

  SpinLock lock_;
  int count_;
  format::Ref records_[kCapacity];
  format::Ref allocations_[kCapacity];  // of the record with the same index; 0 = ended, or unused
  std::uint32_t uses_[kCapacity];       // likewise
};

}  // namespace culprit
