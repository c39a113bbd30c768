#include "interpose/events/announced_memory.h"

#include <algorithm>

#include "interpose/events/record_ends.h"
#include "interpose/format/array_layout.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

AnnouncedMemory::AnnouncedMemory(Process& process) : process_(process), dump_(process.dump) {
  dump_.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (record.kind == Kind::kRegion) ++region_room_;
    if (record.kind == Kind::kHeap && record.bytes == 0 && is_live_now(record))
      names_.insert(record.handle, dump_.ref_of(&record), 0);
  });
  if (region_room_ != 0) list_regions();
}

AnnouncedMemory::~AnnouncedMemory() {
  names_.free_memory();
  if (regions_ != nullptr) unmap_private(regions_, region_room_ * sizeof(Region));
}

void AnnouncedMemory::list_regions() {
  int error = 0;
  regions_ = static_cast<Region*>(map_private(region_room_ * sizeof(Region), &error));
  if (regions_ == nullptr) return;
  dump_.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
    if (record.kind == Kind::kRegion && is_live_now(record) && region_count_ != region_room_)
      regions_[region_count_++] = {record.handle, dump_.ref_of(&record), false};
  });
  std::sort(regions_, regions_ + region_count_,
            [](const Region& one, const Region& other) { return one.begin < other.begin; });
}

Ref AnnouncedMemory::name_of(const AllocationRecord& record) {
  const HashIndex::Entry* found = names_.find(record.handle);
  if (found == nullptr) return 0;
  const auto& heap = *dump_.at<AllocationRecord>(found->value);
  return heap.time_ns < record.time_ns ? 0 : heap.announced.name;  // 0: of memory that was freed before
}

std::uint64_t AnnouncedMemory::begin_of(const AllocationRecord& memory) const {
  return memory.kind == Kind::kArray ? format::array_place(dump_.ref_of(&memory)) : memory.handle;
}

AnnouncedMemory::Region* AnnouncedMemory::first_from(std::uint64_t begin) {
  return std::lower_bound(regions_, regions_ + region_count_, begin,
                          [](const Region& region, std::uint64_t address) { return region.begin < address; });
}

void AnnouncedMemory::end_taken() {
  if (!any_taken_) return;
  process_.tables.live.sweep(dump_, [&](const AllocationRecord& record, Ref ref, EndedBy*) {
    if (record.kind != Kind::kRegion) return false;
    for (const Region* region = first_from(record.handle);
         region != regions_ + region_count_ && region->begin == record.handle; ++region) {
      if (region->record != ref || !region->taken) continue;
      count_end(process_, record);
      return true;
    }
    return false;
  });
}

}  // namespace culprit
