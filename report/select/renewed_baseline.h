// Entries with ids of an older rule, by which a leak's cause, its neighbours and the interpreter's frames changed its
// id. Their leaks are found by place (`where`), kind and API.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/select/baseline_leaks.h"

namespace culprit::report {

// `before`, with the ids that the leaks have in `now`. All leaks at one place get what the old entries of that place
// have, divided in proportion to what they leak now: together they have grown if the place has. Entries that no leak is
// known by stay as they are. `sources`, where given: the old ids that each new id stands for.
BaselineLeaks renewed(BaselineLeaks before, const BaselineLeaks& now,
                      std::map<std::string, std::vector<std::string>>* sources = nullptr);

}  // namespace culprit::report
