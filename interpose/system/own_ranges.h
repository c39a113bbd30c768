// Where this library's private memory lies: the tables, the dump and the stacks of the tracker. A search of the
// process's memory for the program's pointers leaves these ranges out.
//
// A table of fixed size. A range without room in it counts as the program's: the search then finds more pointers, never
// fewer. All functions are thread- and signal-safe.
#pragma once

#include <cstdint>

namespace culprit {

// `begin` was mapped, or is about to be unmapped. A range that was not noted is ignored.
void note_own_range(const void* begin, std::uint64_t bytes);
void forget_own_range(const void* begin);

// The same for each noted range that begins in [begin, begin + bytes).
void forget_own_ranges_in(const void* begin, std::uint64_t bytes);

// In a fork child, in which the addresses may belong to the program.
void forget_all_own_ranges();

// Whether one of the noted ranges has this address.
bool in_own_range(std::uint64_t address);

struct OwnRange {
  std::uint64_t begin;
  std::uint64_t end;
};

constexpr int kMostOwnRanges = 4096;

// Stores the ranges, sorted by their beginnings, and returns their number. `ranges` has room for kMostOwnRanges.
int sorted_own_ranges(OwnRange* ranges);

}  // namespace culprit
