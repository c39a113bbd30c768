// Which allocations take memory of a device, and how much.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

inline bool is_memory(format::Kind kind) { return kind < format::Kind::kContext; }

// Memory that a device's "used" figure contains.
inline bool is_on_device(format::Kind kind) {
  return is_memory(kind) && kind != format::Kind::kPinnedHost && kind != format::Kind::kRegisteredHost;
}

inline std::uint64_t physical_bytes(const format::AllocationRecord& record) {
  return (record.flags & format::kFlagNotPhysical) != 0 ? 0 : record.bytes;
}

}  // namespace culprit
