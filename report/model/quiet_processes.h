// Processes that allocated nothing, as the launcher of a job does: a line names them, so that they do not hide the
// others.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Report;

// The reports to be shown in full, in their order: all if `all`, else without the processes that were recorded
// completely and allocated and made nothing. At least one.
std::vector<const Report*> reports_in_full(const std::vector<Report>& reports, bool all);

// "2 processes allocated nothing: torchrun [1401], app [1402] exit 1" about those that reports_in_full() leaves out;
// empty when there are none.
std::string quiet_processes_text(const std::vector<Report>& reports, bool all);

}  // namespace culprit::report
