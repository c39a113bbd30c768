// Parts of a JSON report (render_json.cpp), for formats that hold the same facts in another arrangement.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "report/report_model.h"

namespace culprit {

using Json = nlohmann::ordered_json;

// How a stack is written down; it is nullptr where nothing is known.
using StackToJson = std::function<Json(const ResolvedStack*)>;

// Everything about a group but its own stack. `running`: the process has not ended.
Json group_json(const Group& group, bool running, const StackToJson& stack_to_json);

Json error_json(const ErrorGroup& error, const StackToJson& stack_to_json);

// What a report says of the run as a whole: the process, its devices, the totals.
Json report_head_json(const Report& report);

}  // namespace culprit
