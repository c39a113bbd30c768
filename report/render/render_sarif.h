// SARIF 2.1.0 for code scanning pages: a run for the processes of one program, a result for each leak and each bad free
// (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html). The places of throws, refused frees and context
// teardowns are in relatedLocations.
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// Keeps the limits of GitHub's code scanning: the smallest leaks are left out, and a notification and options.left_out
// say so.
void render_sarif(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
