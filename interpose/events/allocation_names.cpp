#include "interpose/events/allocation_names.h"

#include "interpose/process/process.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

AllocationNames::AllocationNames(Process& process) : dump_(process.dump) {
  dump_.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (record.kind == Kind::kHeap && record.bytes == 0 && is_live_now(record))
      names_.insert(record.handle, dump_.ref_of(&record), 0);
  });
}

Ref AllocationNames::name_of(const AllocationRecord& record) {
  const HashIndex::Entry* found = names_.find(record.handle);
  if (found == nullptr) return 0;
  const auto& heap = *dump_.at<AllocationRecord>(found->value);
  return heap.time_ns < record.time_ns ? 0 : heap.announced.name;  // 0: of memory that was freed before
}

}  // namespace culprit
