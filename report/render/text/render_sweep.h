// The results of a sweep as text.
#pragma once

#include <ostream>

#include "report/run/sweep.h"
#include "report/select/render_options.h"

namespace culprit::report {

void render_sweep_text(const Sweep& sweep, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
