// The totals of a report, computed from its groups.
#pragma once

#include <vector>

#include "report/model/report_model.h"

namespace culprit::report {

// Whether the group is a leak: cached memory only with `strict`.
bool counts_as_leak(const Group& group, bool strict);

// Sorts the groups as a report lists them: most bytes first.
void sort_groups(std::vector<Group>* groups);

// Recomputes the summary's numbers of leaks, libraries, resources and errors from the report's lists.
void sum_up(bool strict, Report* report);

}  // namespace culprit::report
