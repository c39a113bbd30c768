// The difference of two runs as JSON.
#pragma once

#include <ostream>

#include "report/select/diff.h"

namespace culprit::report {

// An object of schema culprit.diff/1.
void render_diff_json(const Diff& diff, std::ostream& out);

}  // namespace culprit::report
