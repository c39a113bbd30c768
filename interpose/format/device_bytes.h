// How much memory an allocation takes.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

inline std::uint64_t physical_bytes(const format::AllocationRecord& record) {
  return (record.flags & format::kFlagNotPhysical) != 0 ? 0 : record.bytes;
}

}  // namespace culprit
