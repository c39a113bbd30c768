// Writes finished reports out. One function a format; none of them decides anything.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "report/report_model.h"

namespace culprit {

struct RenderOptions {
  bool colours = false;
  bool resources = false;  // list streams, events, contexts, ... instead of one line with totals
  bool strict = false;     // cached memory counts
  bool kept = true;        // the dumps stay, so that further commands can be suggested
};

void render_text(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

// One report is one object of schema culprit.report/1; several stand in the list of a culprit.reports/1. Text that is
// no valid UTF-8 is made so.
void render_json(const std::vector<Report>& reports, std::ostream& out);

// "1.25 GiB", "11001 B", with three digits that matter.
std::string format_bytes(std::uint64_t bytes);

}  // namespace culprit
