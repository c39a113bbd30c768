// Allocations that the program still has a pointer to, while all others of their stacks are lost.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "report/dump/dump_reader.h"

namespace culprit::report {

// A place in the frame of a function that runs. Code is encoded like a frame.
struct LocalPlace {
  std::uint64_t code = 0;   // where the function is now
  std::uint64_t call = 0;   // where it was when the allocation was made
  std::int64_t offset = 0;  // from the frame's CFA
  bool operator<(const LocalPlace& other) const {
    return std::tie(code, call, offset) < std::tie(other.code, other.call, other.offset);
  }
};

struct LastHeld {
  format::Ref allocation = 0;
  format::AllocationRecord record = {};
  std::optional<LocalPlace> local;  // empty: in the data of a module
  std::uint64_t data = 0;           // encoded like a frame
  std::uint32_t depth = 0;          // of that function, the outermost one is 1
};

// Sorted by allocation. Of the dump, or what a scan of the running process found: its places are addresses.
std::vector<LastHeld> read_last_held(const Dump& dump,
                                     const std::optional<std::vector<format::LastHolderRecord>>& scanned);

}  // namespace culprit::report
