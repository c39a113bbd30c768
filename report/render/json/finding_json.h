// Findings in JSON: of a report, and for the page.
#pragma once

#include <string>
#include <vector>

#include "report/render/json/json.h"

namespace culprit::report {

struct Finding;
struct Report;

// The members and their meaning, as the table in SCHEMA.md has them.
std::string finding_members_table();

Json findings_json(const Report& report, const std::vector<Finding>& findings);

}  // namespace culprit::report
