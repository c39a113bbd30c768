// The difference of two runs as text.
#pragma once

#include <ostream>

#include "report/select/diff.h"
#include "report/select/render_options.h"

namespace culprit::report {

// For a terminal.
void render_diff_text(const Diff& diff, const RenderOptions& options, std::ostream& out);

// The summary of a CI job.
void render_diff_markdown(const Diff& diff, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
