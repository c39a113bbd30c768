// Memory that one process gave to another one: a part of the text report.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Group;
struct Report;
struct SharedMemory;

// "freed by rank 0 at a.py:7, still mapped by rank 1, opened at b.py:9: 512 MiB stay".
std::string shared_memory_text(const SharedMemory& shared);

// A line for each entry of memory that stays.
void render_shared_memory(const Report& report, const RenderOptions& options, std::ostream& out);

// For one process, without the dumps of others: what it exported, and what it has open of others; a line each, if there
// is any.
void render_own_sharings(const Report& report, std::ostream& out);

// For a group of mappings of other processes' memory: "exported by rank 0 at a.py:5", for each exporter.
std::vector<std::string> exporters_of(const Report& report, const Group& group);

}  // namespace culprit::report
