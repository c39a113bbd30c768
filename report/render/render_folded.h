// Folded stacks, one line a leak: "main;solve;cudaMalloc 4096", outermost frame first, then the bytes. flamegraph.pl,
// speedscope and inferno read it (https://github.com/brendangregg/FlameGraph#2-fold-stacks).
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

void render_folded(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
