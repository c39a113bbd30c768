// The facts about the run as a whole in a JSON report.
#pragma once

#include <vector>

#include "report/fields/shown_values.h"
#include "report/render/json/json.h"
#include "report/render/json/stack_to_json.h"

namespace culprit::report {

struct CacheInside;
struct FieldContext;
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

// For JsonFields: the time line of a device, the items of a balance, and the parts of a report without a list of
// fields.
void write_value(const ShownTimeLine& shown, const FieldContext& context, const StackToJson& stack_to_json, Json* json);
void write_value(const ShownItems& shown, const FieldContext& context, const StackToJson& stack_to_json, Json* json);
void write_value(const ShownPart& shown, const FieldContext& context, const StackToJson& stack_to_json, Json* json);

}  // namespace culprit::report
