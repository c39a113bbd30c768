// The growth of keepers between two moments, or between two runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/keeper.h"

namespace culprit::report {

struct GrownKeeper {
  Keeper keeper;             // of the later moment; of the earlier one, when it is gone
  std::uint64_t before = 0;  // bytes; 0: it is new
  std::uint64_t now = 0;     // bytes; 0: it is gone

  std::int64_t growth() const { return static_cast<std::int64_t>(now - before); }
};

// Keepers whose bytes differ, by their ids: the one that grew most first, the one that shrank most last. Keepers with
// the same id count as one, which has the path of the largest.
std::vector<GrownKeeper> grown_keepers(const std::vector<Keeper>& before, const std::vector<Keeper>& now);

}  // namespace culprit::report
