// The facts about the run as a whole in a JSON report.
#pragma once

#include <vector>

#include "report/render/json/json.h"

namespace culprit::report {

struct CacheInside;
struct GrownKeeper;
struct Keeper;
struct Report;

// The facts about the run as a whole: the process, its devices, the totals.
Json report_head_json(const Report& report);

// A row of `kept` of a cache.
Json keeper_json(const Keeper& keeper);
// The same with `bytes_before` and `grown_bytes`.
Json growth_json(const std::vector<GrownKeeper>& keepers);
// `inside` of a cache.
Json inside_json(const CacheInside& inside);

// The members `summary` of several reports as one: sums, and the verdict. `nothing_known`: something recorded that no
// report is of.
Json summary_of_all(const std::vector<Report>& reports, bool nothing_known);

}  // namespace culprit::report
