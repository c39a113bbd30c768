// Which live allocations the sums at a mark have: the recorder adds them up at the mark, and a reader adds up those of
// the present in the same way. Nothing here allocates or fails; callable from any thread and from signal handlers.
#pragma once

#include <cstdint>

#include "interpose/format/dump_records.h"

namespace culprit {

// Whether the record with this AllocationRecord::state is a live allocation for a reader.
constexpr bool is_live_state(std::uint32_t state) {
  const auto kind = format::state_of(state);
  return kind == format::AllocationState::kLive || kind == format::AllocationState::kFreeing;
}

// Memory with bytes of its own. Graph memory counts while it is there.
constexpr bool counts_at_mark(const format::AllocationRecord& record) {
  return format::is_physical(record.kind) && (record.flags & format::kFlagNotPhysical) == 0;
}

}  // namespace culprit
