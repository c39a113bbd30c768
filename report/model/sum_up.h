// Computes the totals of a report (summary.h), and the order of its groups.
#pragma once

#include <vector>

namespace culprit::report {

struct Group;
struct Report;

// Whether the group is a leak: cached memory only with `strict`.
bool counts_as_leak(const Group& group, bool strict);

// Sorts the groups as a report lists them: most bytes first.
void sort_groups(std::vector<Group>* groups);

// Recomputes the summary's numbers of leaks, libraries, resources, errors and failed allocations from the report's
// lists.
void sum_up(bool strict, Report* report);

}  // namespace culprit::report
