// Groups, errors and their evidence in a JSON report: for formats that arrange the same facts differently.
#pragma once

#include <functional>
#include <optional>

#include "report/render/json/json.h"

namespace culprit::report {

struct ErrorGroup;
struct FailedAllocation;
struct Frame;
struct Group;
struct ResolvedStack;
struct ThreadInfo;

// How a stack is written; the stack is nullptr when nothing is known.
using StackToJson = std::function<Json(const ResolvedStack*)>;

Json device_json(const std::optional<unsigned>& device);
Json frame_json(const Frame& frame);
// An empty list for nullptr.
Json stack_json(const ResolvedStack* stack);
Json thread_json(const ThreadInfo& thread);

// All of a group except its own stack. `may_be_freed`: as in MemoryWords.
Json group_json(const Group& group, bool may_be_freed, const StackToJson& stack_to_json);

Json error_json(const ErrorGroup& error, const StackToJson& stack_to_json);
Json failed_allocation_json(const FailedAllocation& failed, const StackToJson& stack_to_json);

}  // namespace culprit::report
