// The findings as a part of the text report: one function for all of them.
#pragma once

#include <ostream>

namespace culprit::report {

struct Finding;
struct Report;
struct RenderOptions;

// A line for each finding that no other part of the report shows, and below it its facts and its hint. With
// options.full_stacks its stacks, too.
void render_findings(const Report& report, const RenderOptions& options, std::ostream& out);

// One of them.
void render_finding(const Finding& finding, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
