// Messages in the form of gcc's, which editors and log viewers make links of: "solver.cu:31: error: ...".
#pragma once

#include <ostream>
#include <vector>

namespace culprit::report {

struct Report;
struct RenderOptions;

// Writes an "error" for each leak and each bad free, a "warning" for a leak that the baseline has, and a "note" for
// each further place of it. Files below the working directory are relative to it (RenderOptions::working_folders).
void render_gcc(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
