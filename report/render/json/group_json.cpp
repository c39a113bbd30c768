#include "report/render/json/group_json.h"

#include <map>
#include <nlohmann/json.hpp>

#include "report/causes/evidence_functions.h"
#include "report/fields/leak_fields.h"
#include "report/fields/memory_fields.h"
#include "report/merge/spread.h"
#include "report/model/causes.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/render/json/json_fields.h"
#include "report/select/baseline.h"

namespace culprit::report {

Json json_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json device_json(const std::optional<unsigned>& device) { return device ? Json(*device) : Json(); }

Json frame_json(const Frame& frame) { return json_of(frame, {}, stack_json); }

Json stack_json(const ResolvedStack* stack) {
  Json list = Json::array();
  if (stack == nullptr) return list;
  for (const Frame* frame : stack->frames) list.push_back(frame_json(*frame));
  return list;
}

Json thread_json(const ThreadInfo& thread) { return json_of(thread, {}, stack_json); }

namespace {

Json value_json(const ThreadInfo& thread, const StackToJson&) { return thread_json(thread); }
Json value_json(const ResolvedStack* stack, const StackToJson& stack_to_json) { return stack_to_json(stack); }
template <typename Value>
Json value_json(const Value& value, const StackToJson&) {
  return value;
}

Json evidence_json(const Evidence& evidence, const StackToJson& stack_to_json) {
  Json one;
  one["type"] = evidence_name(evidence.type);
  for (const EvidenceField& field : functions_of(evidence.type).fields(evidence))
    one[field.name] = std::visit([&](const auto& value) { return value_json(value, stack_to_json); }, field.value);
  return one;
}

}  // namespace

void write_value(const ShownEvidence& shown, const FieldContext&, const StackToJson& stack_to_json, Json* json) {
  *json = Json::array();
  for (const Evidence& evidence : shown.group->evidence) json->push_back(evidence_json(evidence, stack_to_json));
  if (shown.group->kind == format::Kind::kVmmPhysical) {
    json->push_back(
        {{"type", "vmm"}, {"mappings", shown.group->mappings}, {"handle_references", shown.group->handle_references}});
  }
}

void write_value(const ShownBaseline& shown, const FieldContext&, const StackToJson&, Json* json) {
  const Group& group = *shown.group;
  const bool known = group.comparison != Comparison::kNew;
  *json = {{"state", comparison_name(group.comparison)},
           {"bytes", known ? Json(group.baseline_bytes) : Json()},
           {"count", known ? Json(group.baseline_count) : Json()},
           {"comment", group.baseline_comment}};
}

// The share of each process (indices into "processes"). Processes with equal shares are listed together, because ranks
// of a job are mostly alike.
void write_value(const ShownSpread& shown, const FieldContext&, const StackToJson&, Json* json) {
  const Group& group = *shown.group;
  const Spread spread = spread_of(group, 0);
  std::map<std::pair<std::uint64_t, std::uint64_t>, Json> amounts;
  for (const Share& share : group.shares) amounts[{share.bytes, share.count}].push_back(share.process);
  *json = {{"processes", group.shares.size()}, {"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
  Json& list = (*json)["amounts"] = Json::array();
  for (auto& [amount, processes] : amounts)
    list.push_back({{"bytes", amount.first}, {"count", amount.second}, {"processes", std::move(processes)}});
}

Json group_json(const Group& group, bool may_be_freed, const StackToJson& stack_to_json) {
  FieldContext context;
  context.may_be_freed = may_be_freed;
  return json_of(group, context, stack_to_json);
}

Json error_json(const ErrorGroup& error, const StackToJson& stack_to_json) { return json_of(error, {}, stack_to_json); }

Json overwritten_json(const Overwritten& one, const StackToJson& stack_to_json) {
  return json_of(one, {}, stack_to_json);
}

Json failed_allocation_json(const FailedAllocation& failed, const StackToJson& stack_to_json) {
  return json_of(failed, {}, stack_to_json);
}

}  // namespace culprit::report
