// JUnit XML for the test pages of CI systems: a suite for each process, a case for each leak and each bad free, and, if
// marks name tests, a case for each test with the leaks that were allocated in it. Leaks in the baseline are skipped,
// not failed. A process without leaks has one case that passes, because an empty suite looks like a job that did not
// run. Elements and attributes as in Jenkins' schema (https://github.com/jenkinsci/xunit-plugin, junit-10.xsd).
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

void render_junit(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
