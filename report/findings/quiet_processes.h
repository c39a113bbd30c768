// Processes that allocated nothing, as the launcher of a job does: a line names them, so that they do not hide the
// others.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Report;

// Reports in their order.
struct Prominence {
  std::vector<const Report*> in_full;  // at least one, if there is any
  std::vector<const Report*> quiet;    // of processes that were recorded completely and allocated and made nothing
};

// `all`: all are shown in full.
Prominence by_prominence(const std::vector<Report>& reports, bool all);

// "2 processes allocated nothing: torchrun [1401], app [1402] exit 1"; empty when there are none.
std::string quiet_processes_text(const std::vector<const Report*>& quiet);

}  // namespace culprit::report
