// Live memory at one moment: a part of the text report.
#pragma once

#include <ostream>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// Live memory at an allocation failure with out of memory: only the last failure unless all are asked for; in a job for
// the first few processes.
void render_failures(const Report& report, const RenderOptions& options, std::ostream& out);

// Memory that was freed only while Python ended.
void render_freed_at_end(const Report& report, const RenderOptions& options, std::ostream& out);

// Live memory at the peak of each device.
void render_peaks(const Report& report, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
