// Names of allocations and regions in them that the program announced (regions.h), for memory that goes with its
// context: found by a list, because a walk over the live table may not search it.
#pragma once

#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/format/array_layout.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

// Lists what is announced now, in walks over all records. On the tracker's own stack only. Where there is no memory for
// the list, nothing was announced.
class AnnouncedMemory {
 public:
  explicit AnnouncedMemory(Process& process);
  ~AnnouncedMemory();
  AnnouncedMemory(const AnnouncedMemory&) = delete;
  AnnouncedMemory& operator=(const AnnouncedMemory&) = delete;

  // Of memory that goes: calls visit(region) for each live region that begins in it, and returns the MarkRecord of the
  // first name in it that is no region's; 0 = none. Looks nothing up. What is older lay in memory that was freed
  // before.
  template <typename Visit>
  format::Ref take(const format::AllocationRecord& memory, Visit visit) {
    format::Ref name = 0;
    if (count_ == 0) return name;
    const std::uint64_t begin = format::begin_of(memory, dump_.ref_of(&memory));
    for (Announced* one = first_from(begin); one != list_ + count_ && one->begin - begin < memory.bytes; ++one) {
      const auto& record = *dump_.at<format::AllocationRecord>(one->record);
      if (!is_live_now(record) || record.time_ns < memory.time_ns) continue;
      if (record.kind == format::Kind::kRegion) {
        one->taken = any_taken_ = true;
        visit(record);
      } else if (name == 0) {
        name = record.announced.name;
      }
    }
    return name;
  }
  // Ends the records of those regions, in a walk over the live table.
  void end_taken();

 private:
  // A region, or the name of an allocation: a heap of no bytes.
  struct Announced {
    std::uint64_t begin;
    format::Ref record;
    bool taken;
  };
  static bool is_listed(const format::AllocationRecord& record);
  Announced* first_from(std::uint64_t begin);

  Process& process_;
  DumpWriter& dump_;
  Announced* list_ = nullptr;  // sorted by their begins
  std::uint64_t room_ = 0;
  std::uint64_t count_ = 0;
  bool any_taken_ = false;
};

}  // namespace culprit
