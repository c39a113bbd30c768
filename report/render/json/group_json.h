// Groups, errors and their evidence in a JSON report: for formats that arrange the same facts differently.
#pragma once

#include <optional>
#include <string>

#include "report/fields/shown_values.h"
#include "report/render/json/json.h"
#include "report/render/json/stack_to_json.h"

namespace culprit::report {

struct ErrorGroup;
struct FailedAllocation;
struct FieldContext;
struct Frame;
struct Group;
struct Overwritten;
struct ResolvedStack;
struct ThreadInfo;

// Null for an empty text.
Json json_or_null(const std::string& text);
Json device_json(const std::optional<unsigned>& device);
Json frame_json(const Frame& frame);
// An empty list for nullptr.
Json stack_json(const ResolvedStack* stack);
Json thread_json(const ThreadInfo& thread);

// All of a group except its own stack. `may_be_freed`: as in MemoryWords.
Json group_json(const Group& group, bool may_be_freed, const StackToJson& stack_to_json);

Json error_json(const ErrorGroup& error, const StackToJson& stack_to_json);
Json overwritten_json(const Overwritten& one, const StackToJson& stack_to_json);
Json failed_allocation_json(const FailedAllocation& failed, const StackToJson& stack_to_json);

// For JsonFields: `evidence`, `baseline` and `spread` of a group.
void write_value(const ShownEvidence& shown, const FieldContext& context, const StackToJson& stack_to_json, Json* json);
void write_value(const ShownBaseline& shown, const FieldContext& context, const StackToJson& stack_to_json, Json* json);
void write_value(const ShownSpread& shown, const FieldContext& context, const StackToJson& stack_to_json, Json* json);

}  // namespace culprit::report
