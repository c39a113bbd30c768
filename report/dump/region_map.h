// Which allocation each announced region lies in, and how much of that allocation, or of the announced heaps in it, the
// regions use. A region has no memory of its own: where its allocation was freed, it is gone, too.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "report/dump/dump_reader.h"

namespace culprit::report {

// A live allocation with regions in it.
struct OuterAllocation {
  format::AllocationRecord record;
  format::Ref ref = 0;
};

// An announced heap, or an allocation whose regions were announced in no heap.
struct HeapRecordUse {
  format::Ref name = 0;  // MarkRecord; 0: none
  std::uint64_t bytes = 0;
  std::uint64_t used_bytes = 0;  // within at least one region
  std::uint64_t largest_hole = 0;
  std::uint64_t regions = 0;
};

class RegionMap {
 public:
  explicit RegionMap(const Dump& dump);

  // The allocation that a region lies in; nullptr: none that is live and was made before the region.
  const OuterAllocation* outer_of(format::Ref region) const;
  bool has_heaps() const { return !heaps_.empty(); }
  // The heaps in an allocation; nullptr: there are none.
  const std::vector<HeapRecordUse>* heaps_of(format::Ref allocation) const;
  // The names of an allocation itself: one that the program gave to its begin, or that of its only region where that
  // begins with it, as a View of Kokkos does behind its header.
  const std::vector<format::Ref>* names_of(format::Ref allocation) const;
  // The names of the other regions in an allocation, one for each region that has one.
  const std::vector<format::Ref>* names_in(format::Ref allocation) const;

 private:
  std::vector<OuterAllocation> outer_;
  std::unordered_map<format::Ref, std::size_t> outer_of_;
  std::unordered_map<format::Ref, std::vector<HeapRecordUse>> heaps_;
  std::unordered_map<format::Ref, std::vector<format::Ref>> names_;
  std::unordered_map<format::Ref, std::vector<format::Ref>> inner_names_;
};

}  // namespace culprit::report
