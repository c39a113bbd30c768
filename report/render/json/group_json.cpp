#include "report/render/json/group_json.h"

#include <map>
#include <nlohmann/json.hpp>

#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/merge/spread.h"
#include "report/model/causes.h"
#include "report/model/failed_allocation.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/names.h"
#include "report/model/pool.h"
#include "report/select/baseline.h"

namespace culprit::report {

Json device_json(const std::optional<unsigned>& device) { return device ? Json(*device) : Json(); }

Json frame_json(const Frame& frame) {
  Json one;
  one["function"] = frame.function;
  one["file"] = frame.file;
  one["line"] = frame.line;
  one["module"] = frame.module != nullptr ? frame.module->path : "";
  one["offset"] = hex_text(frame.offset);
  one["inlined"] = frame.inlined;
  one["language"] = frame.python ? "python" : "native";
  if (frame.symbol_offset != 0) one["symbol_offset"] = frame.symbol_offset;
  if (frame.approximate) one["approximate"] = true;
  return one;
}

Json stack_json(const ResolvedStack* stack) {
  Json list = Json::array();
  if (stack == nullptr) return list;
  for (const Frame* frame : stack->frames) list.push_back(frame_json(*frame));
  return list;
}

Json thread_json(const ThreadInfo& thread) {
  return {{"tid", thread.tid}, {"name", thread.name}, {"ended", thread.ended}};
}

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

// The share of each process (indices into "processes"). Processes with equal shares are listed together, because ranks
// of a job are mostly alike.
Json spread_json(const Group& group) {
  const Spread spread = spread_of(group, 0);
  std::map<std::pair<std::uint64_t, std::uint64_t>, Json> amounts;
  for (const Share& share : group.shares) amounts[{share.bytes, share.count}].push_back(share.process);
  Json one = {{"processes", group.shares.size()}, {"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
  one["amounts"] = Json::array();
  for (auto& [amount, processes] : amounts)
    one["amounts"].push_back({{"bytes", amount.first}, {"count", amount.second}, {"processes", std::move(processes)}});
  return one;
}

// Regions and heaps, where the program announced some.
void add_regions(const Group& group, Json* one) {
  if (group.kind == format::Kind::kRegion) {
    (*one)["region_bytes"] = group.region_bytes;
    (*one)["inside"] = {{"api", group.outside.api}, {"bytes", group.outside.bytes}, {"place", group.outside.place}};
  }
  for (const NameShare& share : group.names) (*one)["names"].push_back({{"name", share.name}, {"count", share.count}});
  for (const HeapUse& heap : group.heaps) {
    (*one)["heaps"].push_back({{"name", heap.name.empty() ? Json() : Json(heap.name)},
                               {"count", heap.count},
                               {"bytes", heap.bytes},
                               {"used_bytes", heap.used_bytes},
                               {"idle_bytes", heap.bytes - heap.used_bytes},
                               {"largest_hole", heap.largest_hole},
                               {"regions", heap.regions}});
  }
}

}  // namespace

Json group_json(const Group& group, bool may_be_freed, const StackToJson& stack_to_json) {
  Json one;
  one["id"] = group.id;
  one["kind"] = kind_name(group.kind);
  one["api"] = group.api;
  one["driver_api"] = group.driver_api;
  one["bytes"] = group.bytes;
  one["count"] = group.count;
  one["device"] = device_json(group.device);
  one["cause"] = cause_name(group.cause);
  if (group.pool != nullptr) one["pool"] = group.pool->name;
  if (!group.library.empty()) one["library"] = group.library;
  if (group.comparison != Comparison::kNone) {
    const bool known = group.comparison != Comparison::kNew;
    one["baseline"] = {{"state", comparison_name(group.comparison)},
                       {"bytes", known ? Json(group.baseline_bytes) : Json()},
                       {"count", known ? Json(group.baseline_count) : Json()},
                       {"comment", group.baseline_comment}};
  }
  one["evidence"] = Json::array();
  for (const Evidence& evidence : group.evidence) one["evidence"].push_back(evidence_json(evidence, stack_to_json));
  if (group.kind == format::Kind::kVmmPhysical) {
    one["evidence"].push_back(
        {{"type", "vmm"}, {"mappings", group.mappings}, {"handle_references", group.handle_references}});
  }
  one["threads"] = Json::array();
  for (const ThreadInfo& thread : group.threads) one["threads"].push_back(thread_json(thread));
  if (!group.thread_sums.empty()) {
    one["thread_names"] = Json::array();
    for (const ThreadSum& sum : group.thread_sums) {
      one["thread_names"].push_back(
          {{"name", sum.name}, {"threads", sum.threads}, {"ended", sum.ended}, {"processes", sum.processes}});
    }
  }
  if (!group.marks.empty()) {
    one["marks"] = Json::array();
    for (const MarkShare& share : group.marks) {
      one["marks"].push_back({{"mark", share.mark.empty() ? Json() : Json(share.mark)},
                              {"range", share.range.empty() ? Json() : Json(share.range)},
                              {"bytes", share.bytes},
                              {"count", share.count}});
    }
  }
  add_regions(group, &one);
  one["first_ns"] = group.first_ns;
  one["last_ns"] = group.last_ns;
  one["made"] = group.made != 0 ? group.made : group.count;
  one["freed"] = group.freed;
  const std::string history = history_text(group);
  one["history"] = history.empty() ? Json() : Json(history);
  const std::string hint = hint_for(group, may_be_freed);
  one["hint"] = hint.empty() ? Json() : Json(hint);
  one["handles"] = Json::array();
  for (std::uint64_t handle : group.handles) one["handles"].push_back(hex_text(handle));
  if (!group.shares.empty()) {
    one["devices"] = group.devices;
    one["spread"] = spread_json(group);
  }
  return one;
}

Json error_json(const ErrorGroup& error, const StackToJson& stack_to_json) {
  Json one;
  one["type"] = error_type_name(error.type);
  one["api"] = error.api;
  one["driver_api"] = error.driver_api;
  one["code"] = error.code;
  one["code_name"] = error.code_name;
  one["kind"] = error.kind == format::Kind::kNone ? Json() : Json(kind_name(error.kind));
  one["handle"] = hex_text(error.handle);
  one["allocation_handle"] = error.allocation_handle != 0 ? Json(hex_text(error.allocation_handle)) : Json();
  one["bytes"] = error.bytes;
  one["count"] = error.count;
  one["device"] = device_json(error.device);
  one["thread"] = error.thread ? thread_json(*error.thread) : Json();
  one["first_ns"] = error.first_ns;
  one["last_ns"] = error.last_ns;
  one["stack"] = stack_to_json(error.stack);
  one["allocation_stack"] = stack_to_json(error.allocation_stack);
  one["free_stack"] = stack_to_json(error.free_stack);
  if (error.free_thread) one["free_thread"] = thread_json(*error.free_thread);
  return one;
}

Json failed_allocation_json(const FailedAllocation& failed, const StackToJson& stack_to_json) {
  Json one;
  one["api"] = failed.api;
  one["driver_api"] = failed.driver_api;
  one["code"] = failed.code;
  one["code_name"] = failed.code_name;
  one["reason"] = failure_reason(failed);
  one["injected"] = failed.injected;
  one["count"] = failed.count;
  one["bytes"] = failed.bytes;
  one["first_ns"] = failed.first_ns;
  one["last_ns"] = failed.last_ns;
  one["stack"] = stack_to_json(failed.stack);
  return one;
}

}  // namespace culprit::report
