// Workflow commands of GitHub Actions, which annotate lines of a pull request: "::error file=solver.cu,line=31::...".
#pragma once

#include <ostream>
#include <vector>

namespace culprit::report {

struct Report;
struct RenderOptions;

// Writes an "error" for each leak and each bad free, a "notice" for a leak that the baseline has, and a "warning" for
// what was not recorded; 50 at most, the number that GitHub keeps of a job, and the number of the rest. Files below the
// repository are relative to its root (RenderOptions::repository_folders), as GitHub needs them.
void render_github(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
