// The identity of a leak group: the same in every run, in a rebuilt program and on another machine.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Group;

// 16 hex digits from kind, API, cause, function names and module names (without version numbers), innermost first.
// Addresses, lines, paths, sizes and devices are not included, so that they may change.
std::string fingerprint(const Group& group);

// Gives every group its id. Groups with the same fingerprint (two calls in one function, one call on two devices) are
// distinguished by their order in the code, then by device; the first keeps the fingerprint itself.
void assign_ids(std::vector<Group*> groups);

}  // namespace culprit::report
