// The text report of an attach.
#pragma once

#include <ostream>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// Allocations that were made while a process was attached and are still live, by line, with their rate.
void render_survivors(const Report& report, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
