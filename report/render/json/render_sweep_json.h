// The results of a sweep as JSON.
#pragma once

#include <ostream>

#include "report/run/sweep.h"

namespace culprit::report {

// An object of schema culprit.sweep/1.
void render_sweep_json(const Sweep& sweep, std::ostream& out);

}  // namespace culprit::report
