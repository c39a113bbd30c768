// Records of moments that the program named: when a name was set, and the live memory by stack at some of these
// moments. Part of dump_format.h.
#pragma once

#include "interpose/format/dump_records.h"

namespace culprit::format {

constexpr std::uint32_t kKeptMarkTimes = 512;

// A time at which a mark was opened, or its moment was set. A ring of kKeptMarkTimes records has the newest of all
// names. (The first and the newest time of each name are in its MarkRecord.) Ranges are left out.
struct MarkTimeRecord {
  std::uint32_t state;  // live: 0 = not valid, else a number that changes with each use of the record
  Ref mark;             // MarkRecord
  std::uint64_t time_ns;
  std::uint64_t number;  // MarkRecord::count at that time: 1 = the first
  std::uint64_t reserved;
};
static_assert(sizeof(MarkTimeRecord) == 32);

// The share of the live allocations that have one stack, kind, api and device.
struct MarkSumShare {
  Ref stack;
  std::uint16_t api;
  Kind kind;
  std::uint8_t device;  // kNoDevice = none
  std::uint64_t bytes;
  std::uint64_t count;  // 0 = unused
};
static_assert(sizeof(MarkSumShare) == 24);

constexpr std::uint32_t kMarkSumShares = 168;  // of a block
constexpr std::uint32_t kKeptMarkSums = 16;    // sums that a dump keeps: the newest

// The live allocations at a moment that the program named, added up: one block, or several with the same `state`. A
// reader needs all of them, from 0 to `blocks` - 1. Other threads are not stopped: allocations that were made after the
// moment are left out, and some that were freed just after it may be missing. The blocks are reused.
struct MarkSumsRecord {
  std::uint32_t state;  // live: 0 = not valid, else the number of the sums: 1 for the first ones that were taken
  Ref mark;             // MarkRecord
  std::uint64_t time_ns;
  std::uint64_t number;  // MarkRecord::count at that time
  std::uint32_t block;
  std::uint32_t blocks;
  std::uint32_t used;         // shares of this block
  Ref next;                   // for the writer only: the next block
  std::uint64_t other_bytes;  // not in any share, because the stacks were too many
  std::uint64_t other_count;  // likewise
  std::uint64_t took_ns;      // how long it took to add up
  MarkSumShare shares[kMarkSumShares];
};
static_assert(sizeof(MarkSumsRecord) == 4096);

}  // namespace culprit::format
