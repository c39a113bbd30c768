// A trace for ui.perfetto.dev and trace_processor: live bytes of each GPU over time, marks, leaks from their first to
// their last allocation, bad frees, failures with out of memory and findings; a process track for each process
// (https://github.com/google/perfetto/blob/main/protos/perfetto/trace, the source of the field numbers here).
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

void render_perfetto(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
