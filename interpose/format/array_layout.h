// CUDA arrays have no addresses. Regions in them (NVTX's memory extension) have places: each array's record has a range
// of its own, above all addresses of programs.
#pragma once

#include <cstdint>

#include "interpose/format/dump_records.h"

namespace culprit::format {

// AllocationRecord::extra of an array. Sizes in elements; 0: not known, as in the dumps of older libraries.
struct ArrayLayout {
  std::uint64_t element_bytes : 8;
  std::uint64_t width : 28;
  std::uint64_t height : 28;
};

inline std::uint64_t packed(const ArrayLayout& layout) {
  return layout.element_bytes | std::uint64_t{layout.width} << 8 | std::uint64_t{layout.height} << 36;
}
inline ArrayLayout array_layout(std::uint64_t extra) { return {extra & 0xff, extra >> 8 & 0xfffffff, extra >> 36}; }

// Where the first byte of an array is, by its record. A Ref counts units of 16 bytes, and a record has several: there
// is room for 8 GiB.
inline std::uint64_t array_place(Ref record) { return std::uint64_t{1} << 63 | std::uint64_t{record} << 31; }

// Where memory begins that has an address, or is an array. `ref`: of the record.
inline std::uint64_t begin_of(const AllocationRecord& record, Ref ref) {
  return record.kind == Kind::kArray ? array_place(ref) : record.handle;
}

}  // namespace culprit::format
