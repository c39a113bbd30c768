// The difference of two runs as a page.
#pragma once

#include <ostream>

#include "report/select/diff.h"

namespace culprit::report {

// One self-contained HTML page.
void render_diff_html(const Diff& diff, std::ostream& out);

}  // namespace culprit::report
