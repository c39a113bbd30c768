// The sums at marks of a dump (interpose/format/dump_marks.h), put together from their blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "interpose/format/dump_marks.h"

namespace culprit::report {

class Dump;

struct MarkSums {
  format::Ref mark = 0;  // MarkRecord
  std::uint64_t time_ns = 0;
  std::uint64_t number = 0;       // of this mark: 1 = the first time that it was set
  std::uint64_t other_bytes = 0;  // of stacks without a share
  std::uint64_t other_count = 0;
  std::vector<format::MarkSumShare> shares;
};

struct KeptMarkSums {
  std::vector<MarkSums> sums;  // oldest first
  std::uint64_t taken = 0;     // with those that the dump no longer has
};

// Sums that are being written or replaced at this moment are left out. Never throws for the contents of the dump.
KeptMarkSums read_mark_sums(const Dump& dump);

}  // namespace culprit::report
