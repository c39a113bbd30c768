#include "interpose/causes/live_handles.h"

#include "interpose/format/kinds.h"
#include "interpose/process/process.h"

namespace culprit {
namespace {

using format::AllocationRecord;

// Calls visit(handle, record) for live memory: a `handle` that is found means that `record` is held.
template <typename Visit>
void for_each_live_handle(Process& process, std::uint64_t most, Visit visit) {
  const auto look_at = [&](const AllocationRecord& record) {
    // Physical memory may have no handle any more; a holder of its mapped address can still free it.
    if (!is_live_now(record) || !is_memory(record.kind) || (record.flags & format::kFlagHandleReleased) != 0) return;
    const bool mapping = record.kind == format::Kind::kVmmMapping && record.physical != 0;
    visit(record.handle, mapping ? *process.dump.at<AllocationRecord>(record.physical) : record);
  };
  process.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations, look_at, most);
}

}  // namespace

bool collect_live_handles(Process& process, HandleSet* handles, std::uint64_t most) {
  std::uint64_t count = 0;
  for_each_live_handle(process, most, [&](std::uint64_t, const AllocationRecord&) { ++count; });
  if (count == 0) return true;
  if (!handles->reserve(count)) return false;
  const auto* base = reinterpret_cast<const unsigned char*>(process.dump.header());
  for_each_live_handle(process, most, [&](std::uint64_t handle, const AllocationRecord& record) {
    const std::uint32_t state = __atomic_load_n(&record.state, __ATOMIC_ACQUIRE);
    if (!is_live_now(record)) return;
    const auto offset = static_cast<std::uint64_t>(reinterpret_cast<const unsigned char*>(&record) - base);
    handles->add(handle, static_cast<format::Ref>(offset / format::kRefUnit), state);
  });
  return true;
}

}  // namespace culprit
