// Memory that one process gave to another one: a part of the text report.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace culprit::report {

struct Group;
struct Report;

// For one process, without the dumps of others: what it exported, and what it has open of others; a line each, if there
// is any.
void render_own_sharings(const Report& report, std::ostream& out);

// For a group of mappings of other processes' memory: "exported by rank 0 at a.py:5", for each exporter.
std::vector<std::string> exporters_of(const Report& report, const Group& group);

}  // namespace culprit::report
