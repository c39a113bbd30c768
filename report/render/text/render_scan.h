// What `culprit scan` found, for a terminal.
#pragma once

#include <ostream>

#include "report/select/render_options.h"

namespace culprit::report {

struct LostScanResult;
struct Report;

// `report`: of the process, with lost memory only.
void render_scan(const LostScanResult& scan, const Report& report, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
