// Leaks as a table: a part of the text report.
#pragma once

#include <ostream>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// The leaks of one report as one line for each value of options.group_by.
void render_grouped(const Report& report, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
