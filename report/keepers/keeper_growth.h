// The growth of keepers between two moments, or between two runs.
#pragma once

#include <vector>

#include "report/model/keeper.h"

namespace culprit::report {

// Keepers whose bytes differ, by their ids: the one that grew most first, the one that shrank most last. Keepers with
// the same id count as one, which has the path of the largest.
std::vector<GrownKeeper> grown_keepers(const std::vector<Keeper>& before, const std::vector<Keeper>& now);

}  // namespace culprit::report
