// The names that the program gave to allocations (note_region_named() in regions.h) by their first address, for a walk
// over the live table, which may not search it.
#pragma once

#include "interpose/dump/dump_writer.h"
#include "interpose/system/hash_index.h"

namespace culprit {

struct Process;

// Walks over all records. On the tracker's own stack only.
class AllocationNames {
 public:
  explicit AllocationNames(Process& process);
  ~AllocationNames() { names_.free_memory(); }
  AllocationNames(const AllocationNames&) = delete;
  AllocationNames& operator=(const AllocationNames&) = delete;

  // The name's MarkRecord; 0 = none, or no memory for the list.
  format::Ref name_of(const format::AllocationRecord& record);

 private:
  DumpWriter& dump_;
  HashIndex names_ = {};  // records of heaps
};

}  // namespace culprit
