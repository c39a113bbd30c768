// The figures of `culprit top` as JSON: culprit.top/1 (report/SCHEMA.md).
#pragma once

#include <ostream>
#include <string>

#include "report/screen/live_model.h"

namespace culprit::report {

// One look as one line. `most_rows`: rows beyond them are counted in `rows_left_out`.
void render_top_json(const LiveModel& model, const LiveChoice& choice, std::size_t most_rows, const std::string& host,
                     std::ostream& out);

}  // namespace culprit::report
