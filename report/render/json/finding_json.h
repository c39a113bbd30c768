// Findings in JSON: of a report, and for the page.
#pragma once

#include <vector>

#include "report/render/json/json.h"

namespace culprit::report {

struct Finding;
struct Report;

Json findings_json(const Report& report, const std::vector<Finding>& findings);

}  // namespace culprit::report
