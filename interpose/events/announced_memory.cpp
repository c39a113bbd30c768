#include "interpose/events/announced_memory.h"

#include <algorithm>

#include "interpose/events/record_ends.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

bool AnnouncedMemory::is_listed(const AllocationRecord& record) {
  return (record.kind == Kind::kRegion || (record.kind == Kind::kHeap && record.bytes == 0)) && is_live_now(record);
}

AnnouncedMemory::AnnouncedMemory(Process& process) : process_(process), dump_(process.dump) {
  const auto for_each_listed = [&](auto visit) {
    dump_.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, [&](const AllocationRecord& record) {
      if (is_listed(record)) visit(record);
    });
  };
  for_each_listed([&](const AllocationRecord&) { ++room_; });
  if (room_ == 0) return;
  list_ = map_items<Announced>(room_);
  if (list_ == nullptr) return;
  for_each_listed([&](const AllocationRecord& record) {
    if (count_ != room_) list_[count_++] = {record.handle, dump_.ref_of(&record), false};
  });
  std::sort(list_, list_ + count_,
            [](const Announced& one, const Announced& other) { return one.begin < other.begin; });
}

AnnouncedMemory::~AnnouncedMemory() { unmap_items(list_, room_); }

AnnouncedMemory::Announced* AnnouncedMemory::first_from(std::uint64_t begin) {
  return std::lower_bound(list_, list_ + count_, begin,
                          [](const Announced& one, std::uint64_t address) { return one.begin < address; });
}

void AnnouncedMemory::end_taken() {
  if (!any_taken_) return;
  process_.tables.live.sweep(dump_, [&](const AllocationRecord& record, Ref ref, EndedBy*) {
    if (record.kind != Kind::kRegion) return false;
    for (const Announced* one = first_from(record.handle); one != list_ + count_ && one->begin == record.handle;
         ++one) {
      if (one->record != ref || !one->taken) continue;
      count_end(process_, record);
      return true;
    }
    return false;
  });
}

}  // namespace culprit
