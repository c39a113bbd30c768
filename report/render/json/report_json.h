// Parts of a JSON report, which render_json.cpp assembles: for formats that arrange the same facts differently.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace culprit::report {

struct ErrorGroup;
struct Frame;
struct Group;
struct Report;
struct ResolvedStack;

using Json = nlohmann::ordered_json;

// How a stack is written; the stack is nullptr when nothing is known.
using StackToJson = std::function<Json(const ResolvedStack*)>;

Json device_json(const std::optional<unsigned>& device);
Json frame_json(const Frame& frame);
// An empty list for nullptr.
Json stack_json(const ResolvedStack* stack);

// All of a group except its own stack. `running`: the process has not ended.
Json group_json(const Group& group, bool running, const StackToJson& stack_to_json);

Json error_json(const ErrorGroup& error, const StackToJson& stack_to_json);

// The facts about the run as a whole: the process, its devices, the totals.
Json report_head_json(const Report& report);

}  // namespace culprit::report
