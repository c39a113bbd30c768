// The leaks that a selection hid, and how the rest compares with a baseline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/group.h"
#include "report/model/keeper.h"

namespace culprit::report {

// Memory that was found but is not shown.
struct HiddenTotal {
  std::uint64_t groups = 0;
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
  void add(const Group& group) {
    ++groups;
    allocations += group.count;
    bytes += group.bytes;
  }
};

// The leaks that one line of a suppressions file hid.
struct SuppressionUse {
  std::string path;
  std::uint64_t line = 0;
  std::string text;  // "leak:foo"
  HiddenTotal hidden;
};

// The comparison with a baseline, in numbers of groups.
// Groups that share an id are one leak.
struct BaselineResult {
  std::string path;
  std::uint64_t added = 0;
  std::uint64_t grown = 0;
  std::uint64_t known = 0;
  std::vector<std::string> gone;     // ids that leaked in no process; set in the last report
  bool knows_keepers = false;        // the baseline has those of live memory
  std::vector<GrownKeeper> keepers;  // new and grown ones, of all processes; set in the last report
};

}  // namespace culprit::report
