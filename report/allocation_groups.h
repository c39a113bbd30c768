// Adds the live allocations of a dump up, by where they were made. A million allocations cost one pass over the mapped
// file and no heap object each.
#pragma once

#include <cstdint>
#include <vector>

#include "report/dump_reader.h"

namespace culprit {

struct AllocationGroup {
  format::Ref stack = 0;
  format::Kind kind = format::Kind::kNone;
  std::uint8_t device = format::kNoDevice;
  std::uint16_t api = 0;
  format::Ref evidence = 0;   // EvidenceRecord
  bool free_failed = false;   // a free of these was refused
  bool not_physical = false;  // graph memory that no launch has made real yet

  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::vector<std::uint32_t> threads;  // different ones, in the order in which the process first saw them
  std::vector<std::uint64_t> handles;  // the first kListed
  std::uint64_t mappings = 0;          // VMM physical memory: sums over the group
  std::uint64_t handle_references = 0;

  static constexpr std::size_t kListed = 8;
  static constexpr std::size_t kMostThreads = 4096;  // no program has more; a damaged dump may claim so
};

// One group for each stack, kind, device, API and evidence, in order of first appearance.
std::vector<AllocationGroup> group_allocations(const Dump& dump);

}  // namespace culprit
