// The totals of a report, from its groups.
#pragma once

#include <vector>

#include "report/model/report_model.h"

namespace culprit {

// Whether the group is a leak: cached memory is one only when `strict` asks for it.
bool counts_as_leak(const Group& group, bool strict);

// Puts the groups into a report's order: most bytes first.
void sort_groups(std::vector<Group>* groups);

// Fills what the summary says about leaks, libraries, resources and errors from the report's lists, anew.
void sum_up(bool strict, Report* report);

}  // namespace culprit
