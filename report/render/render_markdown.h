// A summary for the page of a CI job (GitHub's job summary, a merge request's comment): a table of the leaks, worst
// first, with collapsed stacks.
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

void render_markdown(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
