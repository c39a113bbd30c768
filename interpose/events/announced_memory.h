// Names of allocations and regions in them that the program announced (regions.h), for memory that goes with its
// context: found by lists, because a walk over the live table may not search it.
#pragma once

#include "interpose/dump/dump_writer.h"
#include "interpose/system/hash_index.h"

namespace culprit {

struct Process;

// Lists what is announced now, in a walk over all records. On the tracker's own stack only. Where there is no memory
// for a list, nothing was announced.
class AnnouncedMemory {
 public:
  explicit AnnouncedMemory(Process& process);
  ~AnnouncedMemory();
  AnnouncedMemory(const AnnouncedMemory&) = delete;
  AnnouncedMemory& operator=(const AnnouncedMemory&) = delete;

  // The name's MarkRecord; 0 = none.
  format::Ref name_of(const format::AllocationRecord& record);

  // Calls visit(region) for each live region that begins in this memory, which goes. Looks nothing up.
  template <typename Visit>
  void take_regions(const format::AllocationRecord& memory, Visit visit) {
    if (region_count_ == 0) return;
    const std::uint64_t begin = begin_of(memory);
    for (Region* region = first_from(begin); region != regions_ + region_count_ && region->begin - begin < memory.bytes;
         ++region) {
      const auto& record = *dump_.at<format::AllocationRecord>(region->record);
      // A region that is older lay in memory that was freed before.
      if (!is_live_now(record) || record.time_ns < memory.time_ns) continue;
      region->taken = any_taken_ = true;
      visit(record);
    }
  }
  // Ends the records of those regions, in a walk over the live table.
  void end_taken();

 private:
  struct Region {
    std::uint64_t begin;
    format::Ref record;
    bool taken;
  };
  void list_regions();
  std::uint64_t begin_of(const format::AllocationRecord& memory) const;
  Region* first_from(std::uint64_t begin);

  Process& process_;
  DumpWriter& dump_;
  HashIndex names_ = {};       // records of heaps
  Region* regions_ = nullptr;  // sorted by their begins
  std::uint64_t region_room_ = 0;
  std::uint64_t region_count_ = 0;
  bool any_taken_ = false;
};

}  // namespace culprit
