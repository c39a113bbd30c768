// The report as a page.
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// One self-contained HTML page with the facts of render_json() and more (html_page.h).
void render_html(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
