// The facts about the run as a whole in a JSON report.
#pragma once

#include "report/render/json/json.h"

namespace culprit::report {

struct Report;

// The facts about the run as a whole: the process, its devices, the totals.
Json report_head_json(const Report& report);

}  // namespace culprit::report
